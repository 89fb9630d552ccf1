//! A nest on one rank: its expressions with the rank's coordinates.

use crate::Region;
use polyshard_program::{
    AxisId, Expr, LeafAccess, NestView, OperandId, Region as SymbolicRegion, SlicesOf, Symbol, TileId,
};

/// The expressions of a nest on this rank: its coordinates are substituted, and expressions that depend on nothing else are evaluated.
pub(super) struct LocalNest {
    pub(super) coordinates: Vec<i64>,
    /// By transfer, the region that it moves.
    pub(super) regions: Vec<SymbolicRegion>,
    /// By loop of the leaf, its iterations.
    pub(super) counts: Vec<Expr>,
    /// By operand: the tile that the leaf reads, and the index that its first iteration reads.
    pub(super) operands: Vec<(TileId, Vec<Expr>)>,
    /// The index that the first iteration of the leaf writes.
    pub(super) target: Vec<Expr>,
    /// The values, in the first iteration, of indices used as numbers.
    pub(super) numbers: Vec<Expr>,
    /// The loop of the leaf that is sliced while a transfer is in flight, and its slices.
    pub(super) sliced_along: Option<(usize, SlicesOf)>,
    /// By loop of the leaf, the iterations that are computed while a halo is in flight.
    pub(super) interior: Vec<(Expr, Expr)>,
    /// The region that a time step computes, if the nest has time steps.
    pub(super) of_step: Option<SymbolicRegion>,
}

impl LocalNest {
    pub(super) fn new(nest: &NestView<'_>, coordinates: &[i64]) -> Self {
        let ranges = nest.ranges();
        let own = |symbol: Symbol| match symbol {
            Symbol::Coordinate(AxisId(axis)) => Some(Expr::constant(coordinates[axis])),
            Symbol::Counter(_) => None,
        };
        let fixed = |expr: &Expr| expr.replace_all(&own, &ranges);
        let tile_of = |operand| nest.transfer_of(OperandId(operand));
        let base = |access: &LeafAccess| access.base.iter().map(fixed).collect();
        let interior = nest.leaf.interior.iter().flat_map(|interior| &interior.ranges);
        Self {
            coordinates: coordinates.to_vec(),
            regions: nest.transfers.iter().map(|transfer| transfer.region.map(fixed)).collect(),
            counts: nest.leaf.loops.iter().map(|l| fixed(&l.count)).collect(),
            operands: (0..).map(tile_of).zip(nest.leaf.operands.iter().map(base)).collect(),
            target: base(&nest.leaf.target),
            numbers: nest.leaf.numbers.iter().map(|number| fixed(&number.base)).collect(),
            sliced_along: nest.sliced_along().map(|along| (along.0, nest.slices_along(along))),
            interior: interior.map(|(low, high)| (fixed(low), fixed(high))).collect(),
            of_step: nest.time_steps.as_ref().map(|steps| steps.region.map(fixed)),
        }
    }
}

/// The region of the rank at these coordinates, with these loop counters.
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
