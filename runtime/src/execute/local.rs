//! A nest on one rank: what its expressions are there.

use crate::Region;
use polyshard_program::{AxisId, Expr, LeafAccess, Nest, Region as SymbolicRegion, SlicesOf, Symbol};

/// The expressions of a nest on this rank: its coordinates are substituted, and what depends on nothing else is evaluated.
pub(super) struct LocalNest {
    /// By transfer, what it brings or takes away.
    pub(super) regions: Vec<SymbolicRegion>,
    /// By loop of the leaf, its iterations.
    pub(super) counts: Vec<Expr>,
    /// Where the first iteration of the leaf reads, by operand, and where it writes.
    pub(super) operands: Vec<Vec<Expr>>,
    pub(super) target: Vec<Expr>,
    /// What the indices that are numbers are in the first iteration.
    pub(super) numbers: Vec<Expr>,
    /// The loop of the leaf that is cut while something comes, and into what.
    pub(super) sliced_along: Option<(usize, SlicesOf)>,
    /// By loop of the leaf, the iterations that are computed while a halo comes.
    pub(super) interior: Vec<(Expr, Expr)>,
    /// What a time step computes, if the nest takes some.
    pub(super) of_step: Option<SymbolicRegion>,
}

impl LocalNest {
    pub(super) fn new(nest: &Nest, coordinates: &[i64]) -> Self {
        let ranges = nest.ranges();
        let own = |symbol: Symbol| match symbol {
            Symbol::Coordinate(AxisId(axis)) => Some(Expr::constant(coordinates[axis])),
            Symbol::Counter(_) => None,
        };
        let fixed = |expr: &Expr| expr.replace_all(&own, &ranges);
        let base = |access: &LeafAccess| access.base.iter().map(fixed).collect();
        let interior = nest.leaf.interior.iter().flat_map(|interior| &interior.ranges);
        Self {
            regions: nest.transfers.iter().map(|transfer| transfer.region.map(fixed)).collect(),
            counts: nest.leaf.loops.iter().map(|l| fixed(&l.count)).collect(),
            operands: nest.leaf.operands.iter().map(base).collect(),
            target: base(&nest.leaf.target),
            numbers: nest.leaf.numbers.iter().map(|number| fixed(&number.base)).collect(),
            sliced_along: nest.sliced_along().map(|along| (along.0, nest.slices_along(along))),
            interior: interior.map(|(low, high)| (fixed(low), fixed(high))).collect(),
            of_step: nest.time_steps.as_ref().map(|steps| steps.region.map(fixed)),
        }
    }
}

/// The region for the rank at these coordinates, where loops have these counters.
pub(super) fn region_at(symbolic: &SymbolicRegion, coordinates: &[i64], counters: &[i64]) -> Region {
    let value = |expr: &Expr| expr.eval(coordinates, counters);
    if symbolic.when.iter().any(|(a, b)| value(a) >= value(b)) {
        return Region::empty(symbolic.ranges.len());
    }
    let ranges = Region::new(symbolic.ranges.iter().map(|(low, high)| value(low)..value(high)));
    let periods = symbolic.periods.iter().enumerate().filter_map(|(dim, period)| Some((dim, (*period)?)));
    let region = periods.fold(ranges, |region, (dim, period)| region.periodic(dim, period));
    let blocks = symbolic.blocks.iter().enumerate().filter_map(|(dim, blocks)| Some((dim, blocks.as_ref()?)));
    blocks.fold(region, |region, (dim, blocks)| region.in_blocks(dim, value(&blocks.size), blocks.stride))
}
