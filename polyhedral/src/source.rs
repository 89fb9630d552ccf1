//! From which rank a region is read: the sharding's solution as a relation and as closed forms.

use crate::expr::{Atom, Expr, Ranges, Symbol};
use crate::program::Region;
use crate::relation::{Relations, linear};
use polyshard_layout::{AxisSource, DimLayout, LinearAxes, Sharding};

/// The owner from which each element of one array is read.
pub(crate) struct Sources<'a> {
    pub relations: &'a Relations<'a>,
    pub sharding: &'a Sharding,
    pub ranges: &'a Ranges,
}

impl Sources<'_> {
    /// Iterations to the owners of the elements of their regions; `timed` adds the counters to the outputs.
    pub(crate) fn relation(&self, fixed: usize, region: &Region, timed: bool) -> String {
        let distributed = self.relations.nest.distributed;
        let inputs: Vec<_> = (0..fixed).map(|dim| format!("i{dim}")).collect();
        let ranks = (0..distributed).map(|axis| format!("q{axis}"));
        let times = (distributed..fixed).filter(|_| timed).map(|dim| format!("i{dim}"));
        let outputs: Vec<_> = ranks.chain(times).collect();
        let mut parts = vec!["0 = 0".to_owned()];
        for (dim, loop_id) in self.relations.nest.loops[..fixed].iter().enumerate() {
            parts.push(format!("0 <= i{dim} < {}", self.relations.nest.node(*loop_id).extent));
        }
        let isl = |expr: &Expr| self.relations.isl(expr);
        parts.extend(region.when.iter().map(|(a, b)| format!("{} < {}", isl(a), isl(b))));
        let elements = region.ranges.iter().enumerate();
        parts.extend(elements.map(|(dim, (low, high))| format!("{} <= e{dim} < {}", isl(low), isl(high))));
        let mut witnesses: Vec<_> = (0..region.ranges.len()).map(|dim| format!("e{dim}")).collect();
        let (more, owner) = self.owner();
        witnesses.extend(more);
        parts.push(owner);
        let exists = if witnesses.is_empty() { String::new() } else { format!("exists {} : ", witnesses.join(", ")) };
        format!("{{ [{}] -> [{}] : {exists}{} }}", inputs.join(", "), outputs.join(", "), parts.join(" and "))
    }

    /// Readers and elements to the owner that serves them, for the proof that it is one.
    pub(crate) fn served(&self) -> (String, String) {
        let ndim = self.sharding.shape().len();
        let readers = (0..self.sharding.mesh().ndim()).map(|axis| format!("i{axis}"));
        let inputs: Vec<_> = readers.chain((0..ndim).map(|dim| format!("e{dim}"))).collect();
        let outputs: Vec<_> = (0..self.sharding.mesh().ndim()).map(|axis| format!("q{axis}")).collect();
        let mut bounds = vec!["0 = 0".to_owned()];
        bounds.extend(self.sharding.shape().iter().enumerate().map(|(dim, n)| format!("0 <= e{dim} < {n}")));
        bounds.extend(self.sharding.mesh().extents().iter().enumerate().map(|(axis, n)| format!("0 <= i{axis} < {n}")));
        let write = |(witnesses, condition): (Vec<String>, String)| {
            let exists =
                if witnesses.is_empty() { String::new() } else { format!("exists {} : ", witnesses.join(", ")) };
            let (inputs, outputs) = (inputs.join(", "), outputs.join(", "));
            format!("{{ [{inputs}] -> [{outputs}] : {exists}{} and {condition} }}", bounds.join(" and "))
        };
        (write(self.owner()), write(crate::relation::owned(self.sharding)))
    }

    /// The condition that the rank at `q0, ..` serves element `e0, ..` to the reader at `i0, ..`.
    fn owner(&self) -> (Vec<String>, String) {
        let mut parts = vec!["0 = 0".to_owned()];
        let mut witnesses = Vec::new();
        for (dim, layout) in self.sharding.dims().iter().enumerate() {
            match layout {
                DimLayout::Whole => {}
                DimLayout::Block { block, .. } => {
                    parts.push(format!("0 <= e{dim} - {block}*d{dim} < {block}"));
                    witnesses.push(format!("d{dim}"));
                }
                DimLayout::Cyclic { block, parts: digits, .. } => {
                    parts.push(format!(
                        "0 <= e{dim} - {block}*d{dim} - {}*c{dim} < {block} and 0 <= d{dim} < {digits}",
                        block * digits
                    ));
                    witnesses.push(format!("d{dim}"));
                    witnesses.push(format!("c{dim}"));
                }
            }
        }
        for (axis, source) in self.sharding.sources() {
            parts.push(match source {
                AxisSource::Reader => format!("q{axis} = i{axis}"),
                AxisSource::Pin(at) => format!("q{axis} = {at}"),
                AxisSource::Digit { dim, stride: 1, extent } => format!("q{axis} = d{dim} mod {extent}"),
                AxisSource::Digit { dim, stride, extent } => {
                    format!("q{axis} = (floor(d{dim}/{stride})) mod {extent}")
                }
                AxisSource::Skew { dim, sign, rest, modulus } => {
                    format!("q{axis} = ({sign}*d{dim} - {sign}*({})) mod {modulus}", linear(rest))
                }
            });
        }
        (witnesses, parts.join(" and "))
    }

    /// The coordinates of the owner of the region's low corner.
    pub(crate) fn at_low(&self, region: &Region) -> Vec<Expr> {
        let digit = |dim: usize| match &self.sharding.dims()[dim] {
            DimLayout::Whole => Expr::constant(0),
            DimLayout::Block { block, .. } => region.ranges[dim].0.div(*block as i64, self.ranges),
            DimLayout::Cyclic { block, parts, .. } => {
                region.ranges[dim].0.div(*block as i64, self.ranges).rem(*parts as i64, self.ranges)
            }
        };
        let mut owner: Vec<_> =
            (0..self.sharding.mesh().ndim()).map(|axis| Expr::symbol(Symbol::Coordinate(axis))).collect();
        for (axis, source) in self.sharding.sources() {
            owner[*axis] = match source {
                AxisSource::Reader => Expr::symbol(Symbol::Coordinate(*axis)),
                AxisSource::Pin(at) => Expr::constant(*at as i64),
                AxisSource::Digit { dim, stride, extent } => {
                    let quotient = digit(*dim).div(*stride, self.ranges);
                    // A digit of an index inside the array needs no remainder for its leading axis.
                    if self.leads(*dim, *stride, *extent) { quotient } else { quotient.rem(*extent, self.ranges) }
                }
                AxisSource::Skew { dim, sign, rest, modulus } => {
                    digit(*dim).minus(&at(rest, &owner)).times(*sign).rem(*modulus, self.ranges)
                }
            };
        }
        owner
    }

    fn leads(&self, dim: usize, stride: i64, extent: i64) -> bool {
        match &self.sharding.dims()[dim] {
            DimLayout::Whole => false,
            DimLayout::Block { parts, .. } | DimLayout::Cyclic { parts, .. } => stride * extent == *parts as i64,
        }
    }
}

/// A placement without its modulus, at the given coordinates.
fn at(linear: &LinearAxes, coordinates: &[Expr]) -> Expr {
    let start = Expr::constant(linear.constant);
    linear.terms.iter().fold(start, |sum, &(axis, factor)| sum.plus(&coordinates[axis].times(factor)))
}

/// Solves `from(p) = q` for `p`: closed forms of who maps to the rank at the coordinates, where they exist.
pub(crate) fn invert(from: &[Expr], ranges: &Ranges) -> Option<Vec<Expr>> {
    // While solving, the image `q` goes by fresh counters, so that it is not taken for `p`.
    let base = ranges.counters.len();
    let mut with_image = ranges.clone();
    with_image.counters.extend(&ranges.coordinates);
    let image = |axis: usize| Expr::symbol(Symbol::Counter(base + axis));
    let single = |axis: usize| ranges.coordinates[axis] == 1;
    let mut solved: Vec<Option<Expr>> = (0..from.len()).map(|axis| single(axis).then(|| Expr::constant(0))).collect();
    let mut left: Vec<usize> = (0..from.len()).filter(|&axis| !single(axis)).collect();
    while !left.is_empty() {
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
    let (_, sign) = sum.terms().find(|(atom, _)| **atom == symbol).filter(|(_, factor)| factor.abs() == 1)?;
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
