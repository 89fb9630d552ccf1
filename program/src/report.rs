//! Bounds of a nest per rank: memory and traffic, from the closed forms of its tiles.

use crate::expr::Ranges;
use crate::nest::{Nest, OutputRoute, Route, members, partners};
use crate::proof::{Proof, Report};
use crate::shards::largest_shard;
use crate::traffic;
use polyshard_layout::{Mesh, Reach};

impl Nest {
    /// Returns the nest with what was proved of it and its bounds in its report.
    #[must_use]
    pub fn reported(self, proofs: Vec<Proof>) -> Self {
        let report = report(&self, proofs);
        Self { report, ..self }
    }
}

/// The bounds of a nest, beside what was proved of it.
fn report(nest: &Nest, proofs: Vec<Proof>) -> Report {
    let (ranges, output) = (&nest.ranges(), &nest.output);
    let size = nest.kernel.dtype().size() as u64;
    let shards: Vec<u64> = nest.shardings.iter().map(|sharding| largest_shard(sharding).saturating_mul(size)).collect();
    let mut tile_bytes = 0u64;
    let mut traffic_bytes = 0u64;
    for transfer in &nest.transfers {
        let tile = (transfer.capacity as u64).saturating_mul(size);
        tile_bytes = tile_bytes.saturating_add(tile.saturating_mul(transfer.buffers as u64));
        tile_bytes = tile_bytes.saturating_add(staging(&transfer.route, tile, shards[transfer.tensor], &nest.mesh));
        let times = executions(ranges, transfer.level);
        // What is read twice, on both sides of the end of a periodic dimension, is received once.
        let distinct = transfer.region.max_distinct(ranges).into_iter().fold(size, |n, m| n.saturating_mul(m as u64));
        traffic_bytes = traffic_bytes.saturating_add(received(&transfer.route, distinct.min(tile), times, ranges));
    }
    let tile = (output.capacity as u64).saturating_mul(size);
    tile_bytes = tile_bytes.saturating_add(tile);
    tile_bytes = tile_bytes.saturating_add((nest.leaf.op.scratch() as u64).saturating_mul(size));
    let times = executions(ranges, output.level);
    let sums = Sums { nest, tile, part: part(nest).saturating_mul(size).min(tile) };
    tile_bytes = tile_bytes.saturating_add(sums.staging(&output.route));
    traffic_bytes = traffic_bytes.saturating_add(sums.received(&output.route, times, ranges));
    let traffic_bytes = traffic::of_busiest(nest).map_or(traffic_bytes, |busiest| busiest.total);
    let shard_bytes = shards.iter().fold(0, |sum: u64, &shard| sum.saturating_add(shard));
    Report { proofs, shard_bytes, tile_bytes, traffic_bytes }
}

fn executions(ranges: &Ranges, level: usize) -> u64 {
    ranges.counters[..level].iter().fold(1, |product: u64, &extent| product.saturating_mul(extent.max(0) as u64))
}

/// Bytes packed besides the tile.
fn staging(route: &Route, tile: u64, shard: u64, mesh: &Mesh) -> u64 {
    match route {
        Route::Hold | Route::Copy | Route::Broadcast { .. } => 0,
        // What is not contiguous in the shard is packed before it is sent.
        Route::Permute { .. } => tile.min(shard),
        Route::Shift { first, .. } => staging(first, tile, shard, mesh).max(tile.min(shard)),
        Route::AllGather { .. } => tile.saturating_add(tile.min(shard)),
        Route::Sequence { first, .. } => staging(first, tile, shard, mesh),
        Route::Halo { reach } | Route::Exchange { reach } => {
            tile.saturating_add((partners(reach, mesh) as u64).saturating_mul(tile.min(shard)))
        }
    }
}

fn received(route: &Route, tile: u64, times: u64, ranges: &Ranges) -> u64 {
    match route {
        Route::Shift { counter, first, .. } => {
            let extent = ranges.counters[*counter].max(1) as u64;
            let rounds = times / extent;
            let shifted = tile.saturating_mul(times - rounds);
            shifted.saturating_add(received(first, tile, rounds, ranges))
        }
        route => tile.saturating_mul(route.tiles_received()).saturating_mul(times),
    }
}

/// The output's tiles on their way to the owners, in bytes.
struct Sums<'a> {
    nest: &'a Nest,
    tile: u64,
    /// The most of one tile that one rank owns.
    part: u64,
}

impl Sums<'_> {
    /// The ranks with which one exchanges sums.
    fn others(&self, reach: &[Reach]) -> u64 {
        partners(reach, &self.nest.mesh) as u64
    }

    /// What is packed and received besides the tile.
    fn staging(&self, route: &OutputRoute) -> u64 {
        let Self { tile, part, .. } = *self;
        match route {
            OutputRoute::InPlace | OutputRoute::Combine => 0,
            OutputRoute::Permute { .. } => tile,
            // The members' contributions to one part, and the part.
            OutputRoute::Reduce { .. } | OutputRoute::AllReduce { .. } => tile.saturating_mul(2),
            // The parts one after the other, the contributions to one of them, and the part.
            OutputRoute::ReduceScatter { .. } => tile.saturating_mul(2).saturating_add(part),
            OutputRoute::Shift { last, .. } => tile.max(self.staging(last)),
            OutputRoute::Halo { reach } | OutputRoute::Exchange { reach } => {
                self.others(reach).saturating_mul(part).saturating_mul(2)
            }
        }
    }

    fn received(&self, route: &OutputRoute, times: u64, ranges: &Ranges) -> u64 {
        let Self { tile, part, .. } = *self;
        let (mesh, kind) = (&self.nest.mesh, self.nest.sum_kind());
        match route {
            OutputRoute::InPlace | OutputRoute::Combine => 0,
            OutputRoute::Permute { .. } => tile.saturating_mul(times),
            OutputRoute::Reduce { axes, .. } | OutputRoute::AllReduce { axes } => {
                kind.most_received(tile, members(axes, mesh)).saturating_mul(times)
            }
            OutputRoute::ReduceScatter { axes } => (members(axes, mesh) - 1).saturating_mul(part).saturating_mul(times),
            OutputRoute::Shift { counter, last, .. } => {
                let rounds = times / ranges.counters[*counter].max(1) as u64;
                let shifted = tile.saturating_mul(times - rounds);
                shifted.saturating_add(self.received(last, rounds, ranges))
            }
            OutputRoute::Halo { reach } | OutputRoute::Exchange { reach } => {
                self.others(reach).saturating_mul(part).saturating_mul(times)
            }
        }
    }
}

/// The most elements of one output tile that one rank owns.
fn part(nest: &Nest) -> u64 {
    let sharding = nest.shardings.last().expect("a kernel has an output; this is a bug of polyshard");
    let most = nest.output.region.max_extents(&nest.ranges());
    let dims = sharding.dims().iter().zip(&nest.output.region.blocks);
    let owned = dims.zip(most).map(|((layout, blocks), most)| match blocks {
        // They may be those of one rank.
        Some(_) if layout.is_cyclic() => most as u64,
        _ => layout.max_owned_of(most as usize) as u64,
    });
    owned.fold(1, u64::saturating_mul)
}
