//! From which rank a region is read: the sharding's solution as a relation and as closed forms.

use crate::conditions::{Conditions, Form};
use crate::nest::Depth;
use crate::relation::{Relations, inside_mesh, linear, owned};
use polyshard_layout::{AxisSource, Digit, Sharding};
use polyshard_program::{Atom, AxisId, CounterId, Expr, Ranges, Region, Symbol};

/// The owner from which each element of one array is read.
pub(crate) struct Sources<'a> {
    pub relations: &'a Relations<'a>,
    pub sharding: &'a Sharding,
    pub ranges: &'a Ranges,
}

impl Sources<'_> {
    /// Iterations to the owners that serve the elements of their regions.
    pub(crate) fn relation(&self, depth: Depth, region: &Region) -> Conditions {
        let mut conditions = self.owners(depth, region);
        let forms = |form: fn(usize) -> Form| (0..self.sharding.mesh().ndim()).map(form).collect::<Vec<_>>();
        picked(&mut conditions, self.sharding, &forms(Form::output), &forms(Form::input));
        conditions
    }

    /// Iterations to all owners of elements of their regions; along axes of partial sums, to those of their own term.
    pub(crate) fn all_owners(&self, depth: Depth, region: &Region) -> Conditions {
        let mut conditions = self.owners(depth, region);
        for &axis in self.sharding.partial() {
            conditions.equal(&Form::output(axis), &Form::input(axis));
        }
        conditions
    }

    fn owners(&self, depth: Depth, region: &Region) -> Conditions {
        let axes = self.sharding.mesh().ndim();
        let mut conditions = self.relations.iterations(depth, axes);
        let element: Vec<_> = region.ranges.iter().map(|_| conditions.witness()).collect();
        let rank: Vec<_> = (0..axes).map(Form::output).collect();
        self.relations.inside(&mut conditions, region, &element);
        inside_mesh(&mut conditions, self.sharding, &rank);
        owned(&mut conditions, self.sharding, &element, &rank);
        conditions
    }

    /// Iterations to the elements that the rank at `from` owns.
    pub(crate) fn owned_by(&self, depth: Depth, from: &[Expr]) -> Conditions {
        let ndim = self.sharding.shape().len();
        let mut conditions = self.relations.iterations(depth, ndim);
        let rank: Vec<_> = from.iter().map(|coordinate| self.relations.value(&mut conditions, coordinate)).collect();
        inside_mesh(&mut conditions, self.sharding, &rank);
        owned(&mut conditions, self.sharding, &(0..ndim).map(Form::output).collect::<Vec<_>>(), &rank);
        conditions
    }

    /// Digits of an element to the owners that the sharding's solution computes, and to the ranks that own them.
    ///
    /// An element's owners depend on its digits alone; the reader's own coordinate may be any.
    pub(crate) fn solved(sharding: &Sharding) -> (Conditions, Conditions) {
        let placed = sharding.dims().iter().enumerate().flat_map(|(dim, layout)| {
            let levels = layout.levels().iter().enumerate();
            levels.map(move |(level, layout)| (Digit { dim, level }, layout))
        });
        let placed: Vec<_> = placed.collect();
        let extents = sharding.mesh().extents();
        let mut all = Conditions::new(placed.len(), extents.len());
        for (nth, (_, level)) in placed.iter().enumerate() {
            all.within(&Form::input(nth), level.parts as i64);
        }
        let digit = |digit: Digit| {
            let nth = placed.iter().position(|placed| placed.0 == digit);
            Form::input(nth.expect("a digit is of a level that there is; this is a bug in polyshard"))
        };
        let rank: Vec<_> = (0..extents.len()).map(Form::output).collect();
        let mut computed = all.clone();
        for (axis, source) in sharding.sources() {
            let owner = &rank[*axis];
            let value = match source {
                AxisSource::Reader => {
                    computed.within(owner, extents[*axis] as i64);
                    continue;
                }
                AxisSource::Pin(at) => Form::constant(*at as i64),
                AxisSource::Digit { digit: of, stride, extent } => {
                    let quotient = computed.quotient(&digit(*of), *stride);
                    if leads(sharding, source) { quotient } else { computed.remainder(&quotient, *extent) }
                }
                AxisSource::Skew { digits, rest, modulus, stride, parts } => {
                    let digits = digits.iter().map(|&(of, factor)| digit(of).multiply(factor));
                    let terms = rest.terms.iter().map(|&(axis, factor)| rank[axis].multiply(factor));
                    let sum = digits.chain(terms).fold(Form::constant(rest.constant), |sum, term| sum.add(&term));
                    let remainder = computed.remainder(&sum, *modulus);
                    let quotient = if *stride == 1 { remainder } else { computed.quotient(&remainder, *stride) };
                    if leads(sharding, source) { quotient } else { computed.remainder(&quotient, *parts) }
                }
            };
            computed.equal(owner, &value);
        }
        let mut had = all;
        inside_mesh(&mut had, sharding, &rank);
        for &(axis, at) in sharding.pins() {
            had.equal(&rank[axis], &Form::constant(at as i64));
        }
        for (of, level) in &placed {
            let value = linear(&mut had, &level.at, &rank);
            had.equal(&digit(*of), &value);
        }
        (computed, had)
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
            (0..self.sharding.mesh().ndim()).map(|axis| Expr::symbol(Symbol::Coordinate(AxisId(axis)))).collect();
        for (axis, source) in self.sharding.sources() {
            owner[*axis] = match source {
                AxisSource::Reader => Expr::symbol(Symbol::Coordinate(AxisId(*axis))),
                AxisSource::Pin(at) => Expr::constant(*at as i64),
                AxisSource::Digit { digit, stride, extent } => {
                    let quotient = value(*digit).div(*stride, self.ranges);
                    // A digit of an index inside the array needs no remainder for its leading axis.
                    if leads(self.sharding, source) { quotient } else { quotient.rem(*extent, self.ranges) }
                }
                AxisSource::Skew { digits, rest, modulus, stride, parts } => {
                    let digits = digits.iter().map(|&(digit, factor)| (value(digit), factor));
                    let others = rest.terms.iter().map(|&(axis, factor)| (owner[axis].clone(), factor));
                    let sum = digits.chain(others).fold(Expr::constant(rest.constant), |sum, (value, factor)| {
                        sum.add(&value.multiply_modulo(factor, *modulus))
                    });
                    let quotient = sum.rem(*modulus, self.ranges).div(*stride, self.ranges);
                    if leads(self.sharding, source) { quotient } else { quotient.rem(*parts, self.ranges) }
                }
            };
        }
        owner
    }
}

/// Adds that the owner is the one of an element's owners from which the reader at these coordinates reads it: the one that
/// the sharding's solution picks.
pub(crate) fn picked(conditions: &mut Conditions, sharding: &Sharding, owner: &[Form], reader: &[Form]) {
    for (axis, source) in sharding.sources() {
        match source {
            AxisSource::Reader => conditions.equal(&owner[*axis], &reader[*axis]),
            AxisSource::Skew { parts, .. } => conditions.below(&owner[*axis], &Form::constant(*parts)),
            AxisSource::Pin(_) | AxisSource::Digit { .. } => {}
        }
    }
}

/// Whether an axis has the leading part of a digit or a remainder, so that no further remainder is needed.
fn leads(sharding: &Sharding, source: &AxisSource) -> bool {
    match source {
        AxisSource::Digit { digit, stride, extent } => {
            stride.saturating_mul(*extent) == sharding.dims()[digit.dim].levels()[digit.level].parts as i64
        }
        AxisSource::Skew { modulus, stride, parts, .. } => stride.saturating_mul(*parts) == *modulus,
        AxisSource::Reader | AxisSource::Pin(_) => false,
    }
}

/// Solves `from(p) = q` for `p`: closed forms of the rank that maps to the one at the coordinates, if they exist. Along the
/// axes in `kept`, `p` has the coordinate of `q`.
pub(crate) fn invert(from: &[Expr], kept: &[usize], ranges: &Ranges) -> Option<Vec<Expr>> {
    // While solving, the image `q` is written in fresh counters, so that it is not confused with `p`.
    let base = ranges.counters.len();
    let mut with_image = ranges.clone();
    with_image.counters.extend(&ranges.coordinates);
    let image = |axis: usize| Expr::symbol(Symbol::Counter(CounterId(base + axis)));
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
                .filter(|&p| solved[p].is_none() && from[axis].mentions(Symbol::Coordinate(AxisId(p))))
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
    let named = |symbol| match symbol {
        Symbol::Counter(CounterId(number)) if number >= base => {
            Some(Expr::symbol(Symbol::Coordinate(AxisId(number - base))))
        }
        _ => None,
    };
    solved.into_iter().map(|value| value.map(|value| value.replace_all(&named, &with_image))).collect()
}

fn solve(form: &Expr, p: usize, value: &Expr, solved: &[Option<Expr>], ranges: &Ranges) -> Option<Expr> {
    let symbol = Atom::Symbol(Symbol::Coordinate(AxisId(p)));
    let (sum, modulus) = match form.as_atom() {
        Some(Atom::Mod(inner, modulus)) if ranges.coordinates[p] == *modulus => ((**inner).clone(), Some(*modulus)),
        _ => (form.clone(), None),
    };
    let (_, sign) = sum.terms().find(|(atom, _)| **atom == symbol).filter(|(_, factor)| matches!(factor, -1 | 1))?;
    let rest = sum.subtract(&Expr::symbol(Symbol::Coordinate(AxisId(p))).multiply(sign));
    if rest.mentions(Symbol::Coordinate(AxisId(p))) {
        return None;
    }
    let known = |symbol| match symbol {
        Symbol::Coordinate(AxisId(axis)) => solved[axis].clone(),
        Symbol::Counter(_) => None,
    };
    let rest = rest.replace_all(&known, ranges);
    let found = value.subtract(&rest).multiply(sign);
    Some(match modulus {
        Some(modulus) => found.rem(modulus, ranges),
        None => found,
    })
}

#[cfg(test)]
mod tests;
