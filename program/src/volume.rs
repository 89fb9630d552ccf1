//! Volumes of transfers: the only source for reports, explanations and prices. Tests: `tests/it/explained.rs`.

use crate::expr::{Expr, Ranges, Symbol};
use crate::ids::{CounterId, Depth};
use crate::nest::{Direction, Leg, NestView, Owners, Transfer, TransferView};
use crate::received::{Receiver, received};
use crate::reduction::Procedure;
use crate::staged::{Parts, Staging, staged};
use crate::traffic::{self, Busiest};
use polyshard_layout::{AxisSource, Neighbours, Stages, SumKind};
use std::cmp::Reverse;

/// The volume of a transfer in a run, in bytes of the busiest rank, which is a different one for each transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// How often it is carried out.
    pub times: u64,
    /// The number of these times in which some rank receives something.
    pub busy: u64,
    /// Maximum that one rank receives at a time.
    pub each: u64,
    /// Maximum that one rank receives in all.
    pub received: u64,
    /// Maximum that one rank holds for it in addition to arrays and tiles, to pack and to unpack.
    pub staged: u64,
    /// Whether ranks were counted individually; else bytes are bounds, in which a rank's own elements may count as received.
    pub is_counted: bool,
}

impl NestView<'_> {
    /// Returns the volume of each transfer.
    #[must_use]
    pub fn volumes(&self) -> Vec<Volume> {
        self.traffic().0
    }

    /// Returns the volume of each transfer, and the maximum bytes that one rank receives by all of them: the busiest rank need not
    /// be that of each transfer.
    #[must_use]
    pub fn traffic(&self) -> (Vec<Volume>, u64) {
        self.traffic_of(traffic::of_busiest(self).as_ref())
    }

    /// The same, from these counts if given.
    pub(crate) fn traffic_of(&self, busiest: Option<&Busiest>) -> (Vec<Volume>, u64) {
        let volume = |(number, transfer): (usize, &TransferView<'_>)| {
            let bound = Bound::new(self, transfer).volume();
            if transfer.reused.is_some() {
                return Volume { busy: 0, each: 0, received: 0, staged: 0, is_counted: true, ..bound };
            }
            match busiest.map(|busiest| &busiest.of_transfers[number]) {
                Some(counted) => {
                    // Legs of a program from a file may not lead to all of a region, which is checked after this.
                    let (each, received) = (counted.each.min(bound.each), counted.received.min(bound.received));
                    Volume { busy: counted.busy(), each, received, is_counted: true, ..bound }
                }
                None => bound,
            }
        };
        let volumes: Vec<Volume> = self.transfers.iter().enumerate().map(volume).collect();
        let sum = || volumes.iter().map(|volume| volume.received).fold(0, u64::saturating_add);
        let received = busiest.map_or_else(sum, |busiest| busiest.total);
        (volumes, received)
    }
}

fn executions(ranges: &Ranges, level: Depth) -> u64 {
    ranges.counters[..level.0].iter().fold(1, |product: u64, &extent| product.saturating_mul(extent.max(0) as u64))
}

/// Bounds on a transfer from the extents of its tile, without examining single ranks.
struct Bound<'a> {
    nest: &'a NestView<'a>,
    transfer: &'a TransferView<'a>,
    /// The bytes of a tile.
    tile: u64,
    /// Its distinct bytes: elements that are read twice, on both sides of the end of a periodic dimension, are received once.
    distinct: u64,
    /// The largest part of one tile that one rank owns.
    part: u64,
}

impl<'a> Bound<'a> {
    fn new(nest: &'a NestView<'a>, transfer: &'a TransferView<'a>) -> Self {
        let size = nest.kernel.dtype().size() as u64;
        let shard = nest.shardings[transfer.tensor.0].largest_shard().saturating_mul(size);
        let tile = (transfer.tile.capacity as u64).saturating_mul(size);
        let distinct = transfer.region.max_distinct(&nest.ranges()).into_iter();
        let distinct = distinct.fold(size, |bytes, extent| bytes.saturating_mul(extent as u64)).min(tile);
        let part = match transfer.direction {
            Direction::In => shard,
            Direction::Out { .. } => most_owned(nest, transfer).saturating_mul(size),
        };
        Self { nest, transfer, tile, distinct, part: part.min(tile) }
    }

    /// The ranks with which one exchanges.
    fn others(&self, reach: &Neighbours) -> u64 {
        self.nest.mesh.others_in_reach(reach) as u64
    }

    /// The bytes packed and received in addition to the tile.
    fn staging(&self) -> u64 {
        let legs = self.transfer.route.legs.iter().enumerate();
        // The first of two legs leaves its region in the tile, from which the second sends.
        let held = |nth: usize| nth == 1 && self.transfer.route.held.is_some();
        legs.map(|(nth, leg)| if held(nth) { 0 } else { self.staging_of(leg) }).max().unwrap_or(0)
    }

    fn staging_of(&self, leg: &Leg) -> u64 {
        let Self { nest, transfer, tile, part, .. } = *self;
        let is_under_way = transfer.is_under_way();
        let parts_along = |axes: &[usize]| match self.parts_along(axes) {
            Some(dim) if self.is_whole_behind(dim) => Parts::Together,
            Some(_) => Parts::InOrder,
            None => Parts::Interleaved,
        };
        let staging = Staging {
            mesh: nest.mesh,
            tile,
            part,
            is_under_way,
            // A region that wraps around is packed whole, too.
            are_whole: is_under_way || transfer.region.wraps(),
            at_once: None,
            parts_along: &parts_along,
            elements: transfer.tile.capacity,
            element: nest.kernel.dtype().size() as u64,
        };
        staged(leg, transfer.direction, &staging)
    }

    /// The dimension along which the parts that ranks along these axes own are consecutive in the tile, in rank order, each in one
    /// piece; none if they may interleave.
    fn parts_along(&self, axes: &[usize]) -> Option<usize> {
        let (sharding, region) = (self.nest.shardings[self.transfer.tensor.0], &self.transfer.region);
        let digit = |axis: &usize| match sharding.sources().iter().find(|(source, _)| source == axis)? {
            (_, AxisSource::Digit { digit, stride, .. }) => Some((digit.dim, digit.level, Reverse(*stride))),
            _ => None,
        };
        let digits = axes.iter().map(digit).collect::<Option<Vec<_>>>()?;
        let dim = digits.first()?.0;
        let in_order = digits.is_sorted() && digits.iter().all(|(other, ..)| *other == dim);
        let outside = region.max_extents(&self.nest.ranges()).into_iter().take(dim).all(|extent| extent <= 1);
        let is_box = !region.has_blocks() && !region.wraps() && !sharding.dims()[dim].is_cyclic();
        (in_order && outside && is_box).then_some(dim)
    }

    /// Whether the tile is the same in all iterations, and has all indices that a rank owns along the dimensions after this one.
    fn is_whole_behind(&self, dim: usize) -> bool {
        let (sharding, region) = (self.nest.shardings[self.transfer.tensor.0], &self.transfer.region);
        let varies = (0..self.nest.loops.len()).any(|number| region.mentions(Symbol::Counter(CounterId(number))));
        let owned = sharding.dims().iter().zip(sharding.shape()).map(|(layout, &extent)| layout.max_owned(extent));
        let pairs = owned.zip(region.max_extents(&self.nest.ranges()));
        !varies && pairs.skip(dim + 1).all(|(owned, extent)| owned as i64 <= extent)
    }

    /// The volume of the transfer, without examining ranks individually.
    fn volume(&self) -> Volume {
        let Self { nest, transfer, .. } = *self;
        let ranges = nest.ranges();
        let times = executions(&ranges, transfer.level);
        let (rounds, shifted) = match transfer.route.shift() {
            None => (times, 0),
            Some(shift) => {
                let rounds = times / ranges.counters[shift.counter.0].max(1) as u64;
                (rounds, self.distinct)
            }
        };
        let legs = transfer.route.at_owners().iter().map(|leg| received(leg, transfer.direction, self));
        // The ranks that a tile is permuted to are those that broadcast it, so no rank receives it twice.
        let at_owners = match transfer.direction == Direction::In && transfer.route.is_permuted_first() {
            true => self.distinct,
            false => legs.fold(0, u64::saturating_add),
        };
        let received = shifted.saturating_mul(times - rounds).saturating_add(at_owners.saturating_mul(rounds));
        let each = match transfer.direction {
            // The first tile is not shifted.
            Direction::In => shifted.max(at_owners),
            // Sums that have travelled the ring are sent to their owners in the same iteration.
            Direction::Out { .. } => shifted.saturating_add(at_owners),
        };
        Volume { times, busy: times, each, received, staged: self.staging(), is_counted: false }
    }
}

/// A rank that receives the maximum.
impl Receiver for Bound<'_> {
    fn whole(&self) -> u64 {
        self.distinct
    }

    fn is_at(&self, _: Option<&[usize]>, _: &[Expr]) -> bool {
        false
    }

    /// Each of the others has at most one part.
    fn lacking(&self, reach: &Neighbours) -> u64 {
        self.others(reach).saturating_mul(self.part).min(self.distinct)
    }

    fn gathered(&self, axes: &[usize]) -> u64 {
        self.terms_of_part(axes).min(self.distinct)
    }

    fn terms_of_part(&self, axes: &[usize]) -> u64 {
        (self.nest.mesh.group_size(axes) - 1).saturating_mul(self.part)
    }

    fn sums(&self, axes: &[usize], _: Option<&[Expr]>) -> u64 {
        self.nest.sum_kind().most_received(self.tile, self.nest.mesh.group_size(axes))
    }

    fn sums_in_stages(&self, _: &[usize], owners: &Owners, stages: &Stages) -> u64 {
        let Self { nest, tile, part, .. } = *self;
        let sums = nest.sum_kind();
        let sizes: Vec<u64> = stages.sizes().map(|size| size as u64).collect();
        match owners {
            Owners::One(_) => sizes.iter().map(|&size| sums.most_received(tile, size)).fold(0, u64::saturating_add),
            Owners::All => {
                let (mut received, mut elements) = (0u64, tile / sums.element);
                for &size in sizes.iter().skip(1).rev() {
                    let piece = SumKind::piece(elements, size, 0);
                    let others = piece.saturating_mul(size - 1).saturating_add(elements - elements / size);
                    received = received.saturating_add(others.saturating_mul(sums.element));
                    elements = piece;
                }
                received.saturating_add(sums.most_received(elements.saturating_mul(sums.element), sizes[0]))
            }
            Owners::Parts => {
                let (mut received, mut parts) = (0u64, 1u64);
                for &size in &sizes {
                    received = received.saturating_add((size - 1).saturating_mul(part.saturating_mul(parts).min(tile)));
                    parts = parts.saturating_mul(size);
                }
                received
            }
        }
    }

    fn sums_by(&self, procedure: &Procedure) -> u64 {
        let elements = procedure.most_received(self.transfer.tile.capacity);
        (elements as u64).saturating_mul(self.nest.kernel.dtype().size() as u64)
    }

    fn written_by_one(&self, _: &[Expr], _: &[Expr]) -> u64 {
        self.tile
    }

    fn written_by_others(&self, reach: &Neighbours) -> u64 {
        self.others(reach).saturating_mul(self.part)
    }
}

/// Maximum number of elements of one output tile that one rank owns.
fn most_owned(nest: &NestView<'_>, output: &Transfer) -> u64 {
    let most = output.region.max_extents(&nest.ranges());
    let dims = nest.output_sharding().dims().iter().zip(&output.region.blocks);
    let owned = dims.zip(most).map(|((layout, blocks), most)| match blocks {
        // All blocks may belong to one rank.
        Some(_) if layout.is_cyclic() => most as u64,
        _ => layout.max_owned_of(most as usize) as u64,
    });
    owned.fold(1, u64::saturating_mul)
}
