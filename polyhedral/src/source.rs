//! From which rank a region is read: the sharding's solution as a relation and as closed forms.

use crate::expr::{Atom, Expr, Ranges, Symbol};
use crate::program::Region;
use crate::relation::{Relations, exists, linear, owned};
use polyshard_layout::{AxisSource, Digit, Sharding};

/// The owner from which each element of one array is read.
pub(crate) struct Sources<'a> {
    pub relations: &'a Relations<'a>,
    pub sharding: &'a Sharding,
    pub ranges: &'a Ranges,
}

impl Sources<'_> {
    /// Iterations to the owners that serve the elements of their regions.
    pub(crate) fn relation(&self, fixed: usize, region: &Region) -> String {
        self.owners(fixed, region, picked(self.sharding))
    }

    /// Iterations to all owners of elements of their regions; along axes of partial sums, to those of their own term.
    pub(crate) fn all_owners(&self, fixed: usize, region: &Region) -> String {
        let own = self.sharding.partial().iter().map(|axis| format!("q{axis} = i{axis}"));
        self.owners(fixed, region, own.collect())
    }

    fn owners(&self, fixed: usize, region: &Region, which: Vec<String>) -> String {
        let outputs: Vec<_> = (0..self.sharding.mesh().ndim()).map(|axis| format!("q{axis}")).collect();
        let isl = |expr: &Expr| self.relations.isl(expr);
        let mut parts = vec![self.relations.counters(fixed)];
        parts.extend(region.when.iter().map(|(a, b)| format!("{} < {}", isl(a), isl(b))));
        parts.extend(self.relations.inside(region));
        let (more, owned) = owned(self.sharding, &|axis| format!("q{axis}"));
        parts.push(owned);
        parts.extend(which);
        let witnesses: Vec<_> = (0..region.ranges.len()).map(|dim| format!("e{dim}")).chain(more).collect();
        let exists = exists(&witnesses);
        let inputs = self.relations.inputs(fixed);
        format!("{{ [{inputs}] -> [{}] : {exists}{} }}", outputs.join(", "), parts.join(" and "))
    }

    /// Iterations to the elements that the rank at `from` owns.
    pub(crate) fn owned_by(&self, fixed: usize, from: &[Expr]) -> String {
        let elements: Vec<_> = (0..self.sharding.shape().len()).map(|dim| format!("e{dim}")).collect();
        let (witnesses, owned) = owned(self.sharding, &|axis| format!("({})", self.relations.isl(&from[axis])));
        let (inputs, exists) = (self.relations.inputs(fixed), exists(&witnesses));
        let counters = self.relations.counters(fixed);
        format!("{{ [{inputs}] -> [{}] : {exists}{counters} and {owned} }}", elements.join(", "))
    }

    /// Digits of an element to the owners that the sharding's solution computes, and to those that have them.
    ///
    /// An element's owners depend on its digits alone; a reader's own coordinate is any.
    pub(crate) fn solved(sharding: &Sharding) -> (String, String) {
        let placed = sharding.dims().iter().enumerate().flat_map(|(dim, layout)| {
            let levels = layout.levels().iter().enumerate();
            levels.map(move |(level, layout)| (digit_name(Digit { dim, level }), layout))
        });
        let placed: Vec<_> = placed.collect();
        let digits: Vec<_> = placed.iter().map(|(name, _)| name.as_str()).collect();
        let ranks: Vec<_> = (0..sharding.mesh().ndim()).map(|axis| format!("q{axis}")).collect();
        let mut all = vec!["0 = 0".to_owned()];
        all.extend(placed.iter().map(|(name, level)| format!("0 <= {name} < {}", level.parts)));
        let extents = sharding.mesh().extents();
        let mut computed = all.clone();
        computed.extend(sharding.sources().iter().map(|(axis, source)| match source {
            AxisSource::Reader => format!("0 <= q{axis} < {}", extents[*axis]),
            AxisSource::Pin(at) => format!("q{axis} = {at}"),
            AxisSource::Digit { digit, stride, extent } => {
                let quotient = match stride {
                    1 => digit_name(*digit),
                    _ => format!("(floor({}/{stride}))", digit_name(*digit)),
                };
                let rem = if leads(sharding, source) { String::new() } else { format!(" mod {extent}") };
                format!("q{axis} = {quotient}{rem}")
            }
            AxisSource::Skew { digits, rest, modulus } => {
                let digits = digits.iter().map(|(digit, factor)| format!("{factor}*{}", digit_name(*digit)));
                let terms = rest.terms.iter().map(|(axis, factor)| format!("{factor}*q{axis}"));
                let sum: Vec<_> = digits.chain(terms).chain([rest.constant.to_string()]).collect();
                format!("q{axis} = ({}) mod {modulus}", sum.join(" + "))
            }
        }));
        let mut had = all;
        had.extend(extents.iter().enumerate().map(|(axis, extent)| format!("0 <= q{axis} < {extent}")));
        had.extend(sharding.pins().iter().map(|(axis, at)| format!("q{axis} = {at}")));
        had.extend(
            placed.iter().map(|(name, level)| format!("{name} = {}", linear(&level.at, &|axis| format!("q{axis}")))),
        );
        let write = |parts: &[String]| {
            format!("{{ [{}] -> [{}] : {} }}", digits.join(", "), ranks.join(", "), parts.join(" and "))
        };
        (write(&computed), write(&had))
    }

    /// The digit of an index inside the array.
    fn digit(&self, digit: Digit, index: &Expr) -> Expr {
        let (level, outer) = self.sharding.dims()[digit.dim].levels()[..=digit.level].split_last().expect("a level");
        let index = outer.iter().fold(index.clone(), |index, outer| index.rem(outer.block as i64, self.ranges));
        let number = index.div(level.block as i64, self.ranges);
        if level.cyclic { number.rem(level.parts as i64, self.ranges) } else { number }
    }

    /// The coordinates of the owner of the region's low corner.
    pub(crate) fn at_low(&self, region: &Region) -> Vec<Expr> {
        let value = |digit: Digit| self.digit(digit, &region.ranges[digit.dim].0);
        let mut owner: Vec<_> =
            (0..self.sharding.mesh().ndim()).map(|axis| Expr::symbol(Symbol::Coordinate(axis))).collect();
        for (axis, source) in self.sharding.sources() {
            owner[*axis] = match source {
                AxisSource::Reader => Expr::symbol(Symbol::Coordinate(*axis)),
                AxisSource::Pin(at) => Expr::constant(*at as i64),
                AxisSource::Digit { digit, stride, extent } => {
                    let quotient = value(*digit).div(*stride, self.ranges);
                    // A digit of an index inside the array needs no remainder for its leading axis.
                    if leads(self.sharding, source) { quotient } else { quotient.rem(*extent, self.ranges) }
                }
                AxisSource::Skew { digits, rest, modulus } => {
                    let digits = digits.iter().map(|&(digit, factor)| (value(digit), factor));
                    let others = rest.terms.iter().map(|&(axis, factor)| (owner[axis].clone(), factor));
                    let sum = digits.chain(others).fold(Expr::constant(rest.constant), |sum, (value, factor)| {
                        sum.plus(&value.times_modulo(factor, *modulus))
                    });
                    sum.rem(*modulus, self.ranges)
                }
            };
        }
        owner
    }
}

/// The condition that the rank `q0, ..` is the one of an element's owners from which rank `i0, ..` reads it: the one
/// that the sharding's solution picks.
pub(crate) fn picked(sharding: &Sharding) -> Vec<String> {
    let picked = sharding.sources().iter().filter_map(|(axis, source)| match source {
        AxisSource::Reader => Some(format!("q{axis} = i{axis}")),
        AxisSource::Skew { modulus, .. } => Some(format!("q{axis} < {modulus}")),
        AxisSource::Pin(_) | AxisSource::Digit { .. } => None,
    });
    picked.collect()
}

/// Whether an axis has the leading part of a digit, so that no remainder is needed.
fn leads(sharding: &Sharding, source: &AxisSource) -> bool {
    let AxisSource::Digit { digit, stride, extent } = source else { return false };
    stride.saturating_mul(*extent) == sharding.dims()[digit.dim].levels()[digit.level].parts as i64
}

/// `d0_1`: the digit of dimension 0 at level 1.
fn digit_name(Digit { dim, level }: Digit) -> String {
    format!("d{dim}_{level}")
}

/// Solves `from(p) = q` for `p`: closed forms of who maps to the rank at the coordinates, where they exist. Along the
/// axes in `kept` the coordinate of `p` is that of `q`.
pub(crate) fn invert(from: &[Expr], kept: &[usize], ranges: &Ranges) -> Option<Vec<Expr>> {
    // While solving, the image `q` goes by fresh counters, so that it is not taken for `p`.
    let base = ranges.counters.len();
    let mut with_image = ranges.clone();
    with_image.counters.extend(&ranges.coordinates);
    let image = |axis: usize| Expr::symbol(Symbol::Counter(base + axis));
    let single = |axis: usize| ranges.coordinates[axis] == 1;
    let known = |axis: usize| match single(axis) {
        true => Some(Expr::constant(0)),
        false => kept.contains(&axis).then(|| image(axis)),
    };
    let mut solved: Vec<Option<Expr>> = (0..from.len()).map(known).collect();
    let mut left: Vec<usize> = (0..from.len()).filter(|&axis| !single(axis)).collect();
    while solved.iter().any(Option::is_none) {
        let before = left.len();
        left.retain(|&axis| {
            let unknown: Vec<_> = (0..from.len())
                .filter(|&p| solved[p].is_none() && from[axis].mentions(Symbol::Coordinate(p)))
                .collect();
            let &[p] = &unknown[..] else { return true };
            match solve(&from[axis], p, &image(axis), &solved, &with_image) {
                Some(value) => {
                    solved[p] = Some(value);
                    false
                }
                None => true,
            }
        });
        if left.len() == before {
            return None;
        }
    }
    let named = |expr: Expr| {
        (0..from.len()).fold(expr, |expr, axis| {
            let own = Expr::symbol(Symbol::Coordinate(axis));
            expr.replace(Symbol::Counter(base + axis), &own, &with_image)
        })
    };
    solved.into_iter().map(|value| value.map(named)).collect()
}

fn solve(form: &Expr, p: usize, value: &Expr, solved: &[Option<Expr>], ranges: &Ranges) -> Option<Expr> {
    let symbol = Atom::Symbol(Symbol::Coordinate(p));
    let (sum, modulus) = match form.as_atom() {
        Some(Atom::Mod(inner, modulus)) if ranges.coordinates[p] == *modulus => ((**inner).clone(), Some(*modulus)),
        _ => (form.clone(), None),
    };
    let (_, sign) = sum.terms().find(|(atom, _)| **atom == symbol).filter(|(_, factor)| matches!(factor, -1 | 1))?;
    let rest = sum.minus(&Expr::symbol(Symbol::Coordinate(p)).times(sign));
    if rest.mentions(Symbol::Coordinate(p)) {
        return None;
    }
    let rest = solved.iter().enumerate().fold(rest, |rest, (axis, known)| match known {
        Some(known) => rest.replace(Symbol::Coordinate(axis), known, ranges),
        None => rest,
    });
    let found = value.minus(&rest).times(sign);
    Some(match modulus {
        Some(modulus) => found.rem(modulus, ranges),
        None => found,
    })
}
