//! Bytes that the busiest rank receives, counted as the runtime counts them, if ranks and steps are few.
//! Tests: `tests/it/explained.rs`.

use crate::expr::{Expr, Ranges};
use crate::ids::{Depth, TensorId};
use crate::nest::{Direction, NestView, Owners, Region, Transfer, TransferView};
use crate::received::{Receiver, received};
use crate::reduction::Procedure;
use polyshard_layout::{Along, Neighbours, Sharding, Stages, Stencil, SumKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

/// Transfers, of all ranks in all steps, beyond which nothing is counted: a few milliseconds.
const MAX_TRANSFERS: u64 = 8192;

/// The same if ranks are few, and a loop in panels as fine as a small memory requires has many steps: the elements that one of few ranks
/// owns itself would be a large part of a bound.
const MAX_OF_FEW: u64 = 20_000;
const FEW_RANKS: usize = 64;

/// Bytes that the busiest rank receives.
pub(crate) struct Busiest {
    /// In all steps, of all tensors.
    pub total: u64,
    /// By transfer; each has its own busiest rank.
    pub of_transfers: Vec<OfTransfer>,
}

/// Bytes that ranks receive by a transfer.
#[derive(Clone, Default)]
pub(crate) struct OfTransfer {
    /// Maximum bytes in one step.
    pub(crate) each: u64,
    /// Maximum bytes in all steps.
    pub(crate) received: u64,
    /// For each step, whether some rank receives something.
    busy: Vec<bool>,
}

impl OfTransfer {
    /// The number of steps in which some rank receives something.
    pub(crate) fn busy(&self) -> u64 {
        self.busy.iter().map(|&busy| u64::from(busy)).sum()
    }
}

/// By the elements of a tile, the elements that each rank receives by the procedure that sums up the output.
type ByProcedure = BTreeMap<usize, Vec<usize>>;

/// The bytes that the busiest rank receives; none if there are too many steps to count.
pub(crate) fn of_busiest(nest: &NestView<'_>) -> Option<Busiest> {
    let (ranges, ranks) = (nest.ranges(), nest.mesh.size());
    let looked_at = |transfer: &TransferView<'_>| {
        let extents = ranges.counters[..transfer.level.0].iter();
        let steps = extents.fold(1u64, |product, &extent| product.saturating_mul(extent.max(0) as u64));
        let tiles = others(transfer, nest).max(1).saturating_mul(most_blocks(&transfer.region, &ranges));
        steps.saturating_mul(tiles)
    };
    let all = nest.transfers.iter().map(looked_at).fold(0, u64::saturating_add);
    // A loop without iterations does not make ranks fewer.
    if all.max(1).saturating_mul(ranks as u64) > if ranks <= FEW_RANKS { MAX_OF_FEW } else { MAX_TRANSFERS } {
        return None;
    }
    let mut busiest = Busiest { total: 0, of_transfers: vec![OfTransfer::default(); nest.transfers.len()] };
    let known = RefCell::new(ByProcedure::new());
    for rank in 0..ranks {
        let rank = Rank::new(nest, nest.mesh.coordinates(rank));
        let mut total = 0u64;
        for (transfer, of_transfer) in nest.transfers.iter().zip(&mut busiest.of_transfers) {
            let (mut sum, mut step) = (0u64, 0);
            let Ok(()) = in_all_steps(transfer.level, &ranges.counters, |counters| {
                let received = rank.received(transfer, counters, &known);
                sum = sum.saturating_add(received);
                of_transfer.each = of_transfer.each.max(received);
                if of_transfer.busy.len() == step {
                    of_transfer.busy.push(false);
                }
                of_transfer.busy[step] |= received > 0;
                step += 1;
                Ok::<(), Infallible>(())
            });
            of_transfer.received = of_transfer.received.max(sum);
            total = total.saturating_add(sum);
        }
        busiest.total = busiest.total.max(total);
    }
    Some(busiest)
}

/// The number of ranks whose tiles or shards are examined to count the bytes that one rank receives in one step.
fn others(transfer: &Transfer, nest: &NestView<'_>) -> u64 {
    let all_is_fetched = |reach: &Neighbours| transfer.direction == Direction::In && reach.stencil == Stencil::Box;
    match transfer.route.among() {
        Some(reach) if !all_is_fetched(reach) => nest.mesh.others_in_reach(reach) as u64,
        // All ranks go through the steps of a procedure.
        _ if transfer.route.procedure().is_some() => nest.mesh.size() as u64,
        _ => 1,
    }
}

/// Maximum number of blocks of a region along its dimensions, which are examined one by one.
fn most_blocks(region: &Region, ranges: &Ranges) -> u64 {
    let dims = region.ranges.iter().zip(&region.blocks).filter_map(|((low, high), blocks)| {
        let length = high.subtract(low).bounds(ranges).1.max(0);
        Some(length / blocks.as_ref()?.stride)
    });
    dims.fold(1, |sum, blocks| sum.saturating_add(blocks as u64))
}

/// Visits all values of the counters of the loops around a place, the innermost loop's fastest, until a visit fails.
pub(crate) fn in_all_steps<E>(
    level: Depth,
    extents: &[i64],
    mut visit: impl FnMut(&[i64]) -> Result<(), E>,
) -> Result<(), E> {
    let mut counters = vec![0; extents.len()];
    if extents[..level.0].iter().any(|&extent| extent < 1) {
        return Ok(());
    }
    loop {
        visit(&counters)?;
        let Some(next) = level.loops().rev().find(|number| counters[number.0] + 1 < extents[number.0]) else {
            return Ok(());
        };
        counters[next.0] += 1;
        counters[next.0 + 1..level.0].fill(0);
    }
}

/// One rank of a nest, which evaluates its expressions.
pub(crate) struct Rank<'a> {
    nest: &'a NestView<'a>,
    pub(crate) coordinates: Vec<usize>,
    indices: Vec<i64>,
}

impl<'a> Rank<'a> {
    pub(crate) fn new(nest: &'a NestView<'a>, coordinates: Vec<usize>) -> Self {
        Self { nest, indices: coordinates.iter().map(|&at| at as i64).collect(), coordinates }
    }

    /// The bytes that the rank receives by a transfer in one step.
    fn received(&self, transfer: &TransferView<'_>, counters: &[i64], known: &RefCell<ByProcedure>) -> u64 {
        if transfer.reused.is_some() {
            return 0;
        }
        let Some(shift) = transfer.route.shift() else { return self.received_at_owners(transfer, counters, known) };
        let leads_home = shift.by.rem_euclid(self.nest.mesh.as_slice()[shift.axis.0].extent as i64) == 0;
        let at = counters[shift.counter.0];
        let shifted = if at > 0 && !leads_home { self.bytes(&transfer.region, counters) } else { 0 };
        let is_at_owners = at == transfer.iteration_at_owners(self.nest.loops[shift.counter.0].extent);
        shifted.saturating_add(if is_at_owners { self.received_at_owners(transfer, counters, known) } else { 0 })
    }

    /// The bytes that the rank receives by the legs between owners and tiles.
    fn received_at_owners(&self, transfer: &TransferView<'_>, counters: &[i64], known: &RefCell<ByProcedure>) -> u64 {
        // The region held in between may have elements where the region itself is empty.
        let legs = transfer.at_owners().map(|(_, leg, region)| {
            received(leg, transfer.direction, &Now { rank: self, tensor: transfer.tensor, region, counters, known })
        });
        legs.fold(0, u64::saturating_add)
    }

    /// The bytes of a region on this rank.
    fn bytes(&self, region: &Region, counters: &[i64]) -> u64 {
        let element = self.nest.kernel.dtype().size() as u64;
        let count = |ranges: Vec<Along>| ranges.iter().map(Along::count).fold(element, u64::saturating_mul);
        self.ranges(region, counters).map_or(0, count)
    }

    pub(crate) fn value(&self, expr: &Expr, counters: &[i64]) -> i64 {
        expr.eval(&self.indices, counters)
    }

    fn values(&self, exprs: &[Expr], counters: &[i64]) -> Vec<i64> {
        exprs.iter().map(|expr| self.value(expr, counters)).collect()
    }

    /// The coordinates that expressions name, if such a rank exists.
    pub(crate) fn rank_at(&self, at: &[Expr], counters: &[i64]) -> Option<Vec<usize>> {
        self.on_mesh(self.values(at, counters))
    }

    /// The rank at these coordinates along `axes` and this one's along the others, if it exists.
    pub(crate) fn member_at(&self, axes: &[usize], at: &[Expr], counters: &[i64]) -> Option<Vec<usize>> {
        let mut member = self.indices.clone();
        axes.iter().zip(at).for_each(|(&axis, at)| member[axis] = self.value(at, counters));
        self.on_mesh(member)
    }

    fn on_mesh(&self, at: Vec<i64>) -> Option<Vec<usize>> {
        let at: Option<Vec<_>> = at.into_iter().map(|at| usize::try_from(at).ok()).collect();
        at.filter(|at| at.iter().zip(self.nest.mesh.as_slice()).all(|(&at, axis)| at < axis.extent))
    }

    /// The number of the rank at these coordinates along `axes`, among the ranks that differ from this one only along `axes`.
    fn member(&self, axes: &[usize], at: &[usize]) -> u64 {
        let extents = axes.iter().map(|&axis| self.nest.mesh.as_slice()[axis].extent as u64);
        extents.zip(at).fold(0, |number, (extent, &at)| number * extent + at as u64)
    }

    fn own_member(&self, axes: &[usize]) -> u64 {
        self.member(axes, &axes.iter().map(|&axis| self.coordinates[axis]).collect::<Vec<_>>())
    }

    /// The region on this rank, if it is not empty.
    pub(crate) fn ranges(&self, region: &Region, counters: &[i64]) -> Option<Vec<Along>> {
        region.at(&self.indices, counters)
    }

    /// The elements of a region that the rank reads from the shard of one of their owners.
    pub(crate) fn read_from(&self, owner: &Rank<'_>, sharding: &Sharding, ranges: &[Along]) -> u64 {
        let count = owner.owned(sharding, ranges);
        let dims = || sharding.dims().iter().zip(sharding.shape());
        let first = || dims().map(|(layout, &extent)| layout.first(&owner.coordinates).min(extent.saturating_sub(1)));
        // Only one of several owners is read from.
        let is_read = count > 0 && sharding.owner(&self.coordinates, &first().collect::<Vec<_>>()) == owner.coordinates;
        if is_read { count } else { 0 }
    }

    /// The elements of a region that the rank reads from the shards of others in reach.
    pub(crate) fn read_from_others(&self, reach: &Neighbours, sharding: &Sharding, ranges: &[Along]) -> u64 {
        let others = self.nest.mesh.in_reach(&self.coordinates, reach).filter(|owner| *owner != self.coordinates);
        let read = others.map(|owner| self.read_from(&Rank::new(self.nest, owner), sharding, ranges));
        read.fold(0, u64::saturating_add)
    }

    /// The elements of a region that the rank owns.
    pub(crate) fn owned(&self, sharding: &Sharding, ranges: &[Along]) -> u64 {
        sharding.owned_of(&self.coordinates, ranges)
    }
}

/// One rank in one step.
struct Now<'a, 'r> {
    rank: &'r Rank<'a>,
    tensor: TensorId,
    region: &'r Region,
    counters: &'r [i64],
    known: &'r RefCell<ByProcedure>,
}

impl Now<'_, '_> {
    fn ranges(&self) -> Option<Vec<Along>> {
        self.rank.ranges(self.region, self.counters)
    }

    /// The elements that this rank owns among these indices of the output.
    fn own(&self, ranges: &[Along]) -> u64 {
        self.rank.owned(self.rank.nest.output_sharding(), ranges)
    }

    fn element(&self) -> u64 {
        self.rank.nest.kernel.dtype().size() as u64
    }

    /// The bytes of the tile that the rank does not own.
    fn read_from_all_others(&self) -> u64 {
        let Some(ranges) = self.ranges() else { return 0 };
        let distinct = ranges.iter().map(Along::distinct).fold(1, u64::saturating_mul);
        let own = self.rank.read_from(self.rank, self.rank.nest.shardings[self.tensor.0], &ranges);
        (distinct - own).saturating_mul(self.element())
    }
}

impl Receiver for Now<'_, '_> {
    fn whole(&self) -> u64 {
        self.rank.bytes(self.region, self.counters)
    }

    fn is_at(&self, axes: Option<&[usize]>, at: &[Expr]) -> bool {
        let (indices, at) = (&self.rank.indices, self.rank.values(at, self.counters));
        match axes {
            Some(axes) => axes.iter().zip(at).all(|(&axis, at)| indices[axis] == at),
            None => at == *indices,
        }
    }

    fn lacking(&self, reach: &Neighbours) -> u64 {
        if reach.stencil != Stencil::Star {
            return self.read_from_all_others();
        }
        // Elements that ranks outside of the star own are not fetched.
        let Some(ranges) = self.ranges() else { return 0 };
        let sharding = &self.rank.nest.shardings[self.tensor.0];
        self.rank.read_from_others(reach, sharding, &ranges).saturating_mul(self.element())
    }

    fn gathered(&self, _: &[usize]) -> u64 {
        self.read_from_all_others()
    }

    fn terms_of_part(&self, axes: &[usize]) -> u64 {
        let own = self.ranges().map_or(0, |ranges| self.own(&ranges));
        (self.rank.nest.mesh.group_size(axes) - 1).saturating_mul(own).saturating_mul(self.element())
    }

    fn sums(&self, axes: &[usize], root: Option<&[Expr]>) -> u64 {
        let (rank, nest) = (self.rank, self.rank.nest);
        let root = root.map(|root| rank.values(root, self.counters));
        let root = root.map(|root| root.into_iter().map(|at| at.max(0) as usize).collect::<Vec<_>>());
        let root = root.map(|root| rank.member(axes, &root));
        nest.sum_kind().received(self.whole(), nest.mesh.group_size(axes), rank.own_member(axes), root)
    }

    /// The last stage runs first.
    fn sums_in_stages(&self, axes: &[usize], owners: &Owners, stages: &Stages) -> u64 {
        let Self { rank, counters, .. } = *self;
        let (mesh, sums, bytes) = (&rank.nest.mesh, rank.nest.sum_kind(), self.whole());
        let (refined, along) = stages.refined(mesh);
        let digits = |coordinates: &[usize]| refined.coordinates(mesh.rank(coordinates));
        let own = digits(&rank.coordinates);
        let size = |stage: usize| refined.group_size(&along[stage]);
        let number = |stage: usize, digits: &[usize]| {
            let along = along[stage].iter().map(|&axis| (refined.as_slice()[axis].extent, digits[axis]));
            along.fold(0, |number, (extent, digit)| number * extent as u64 + digit as u64)
        };
        let agree = |stages: Range<usize>, digits: &[usize]| {
            along[stages].iter().flatten().all(|&axis| own[axis] == digits[axis])
        };
        let (all, mut received) = (0..along.len(), 0u64);
        match owners {
            Owners::One(root) => {
                let Some(root) = rank.member_at(axes, root, counters).map(|root| digits(&root)) else { return 0 };
                for stage in all.rev().filter(|&stage| agree(stage + 1..along.len(), &root)) {
                    let root = Some(number(stage, &root));
                    received = received.saturating_add(sums.received(bytes, size(stage), number(stage, &own), root));
                }
            }
            Owners::All => {
                let mut elements = bytes / sums.element;
                for stage in all.skip(1).rev() {
                    let piece = SumKind::piece(elements, size(stage), number(stage, &own));
                    // The terms of the piece, and then the pieces that others have summed up.
                    let others = piece.saturating_mul(size(stage) - 1).saturating_add(elements - piece);
                    received = received.saturating_add(others.saturating_mul(sums.element));
                    elements = piece;
                }
                let first = sums.received(elements * sums.element, size(0), number(0, &own), None);
                received = received.saturating_add(first);
            }
            Owners::Parts => {
                let Some(ranges) = self.ranges() else { return 0 };
                let sharding = rank.nest.output_sharding();
                let parts: Vec<_> = mesh
                    .members(&rank.coordinates, axes)
                    .map(|member| (digits(&member), sharding.owned_of(&member, &ranges)))
                    .collect();
                for stage in all {
                    let here = parts.iter().filter(|(digits, _)| agree(stage..along.len(), digits));
                    let part = here.fold(0u64, |sum, (_, part)| sum.saturating_add(*part));
                    received = received.saturating_add(part.saturating_mul(size(stage) - 1));
                }
                received = received.saturating_mul(sums.element);
            }
        }
        received
    }

    fn sums_by(&self, procedure: &Procedure) -> u64 {
        // Other groups may have other tiles, which do not matter to this rank.
        let elements = (self.whole() / self.element()) as usize;
        let mut known = self.known.borrow_mut();
        let received = known.entry(elements).or_insert_with(|| procedure.received(|_| elements));
        (received[self.rank.nest.mesh.rank(&self.rank.coordinates)] as u64).saturating_mul(self.element())
    }

    fn written_by_one(&self, owner: &[Expr], served: &[Expr]) -> u64 {
        let (rank, counters) = (self.rank, self.counters);
        match rank.rank_at(served, counters).map(|served| Rank::new(rank.nest, served)) {
            Some(writer) if writer.indices != rank.indices && writer.values(owner, counters) == rank.indices => {
                writer.bytes(self.region, counters)
            }
            _ => 0,
        }
    }

    fn written_by_others(&self, reach: &Neighbours) -> u64 {
        let Self { rank, region, counters, .. } = *self;
        let writers = rank.nest.mesh.in_reach(&rank.coordinates, &reach.mirrored());
        let others = writers.filter(|writer| *writer != rank.coordinates);
        let received = others
            .map(|writer| Rank::new(rank.nest, writer).ranges(region, counters).map_or(0, |ranges| self.own(&ranges)));
        received.fold(0, u64::saturating_add).saturating_mul(self.element())
    }
}
