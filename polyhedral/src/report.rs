//! Bounds of a program per rank: memory and traffic, from the closed forms of its tiles.

use crate::expr::Ranges;
use crate::program::{OutputRoute, Program, Report, Route};
use crate::proof::Proof;
use polyshard_layout::{DimLayout, Sharding};

/// The bounds of a program, beside what was proved of it.
pub(crate) fn report(program: &Program, proofs: Vec<Proof>) -> Report {
    let (ranges, output) = (&program.ranges(), &program.output);
    let size = program.kernel.dtype().size() as u64;
    let ranks = program.mesh.size() as u64;
    let shards: Vec<u64> =
        program.shardings.iter().map(|sharding| largest_shard(sharding).saturating_mul(size)).collect();
    let mut tile_bytes = 0u64;
    let mut traffic_bytes = 0u64;
    for transfer in &program.transfers {
        let tile = (transfer.capacity as u64).saturating_mul(size);
        tile_bytes = tile_bytes.saturating_add(tile.saturating_mul(transfer.buffers as u64));
        tile_bytes = tile_bytes.saturating_add(staging(&transfer.route, tile, shards[transfer.tensor], ranks));
        let times = executions(ranges, transfer.level);
        // What is read twice, on both sides of the end of a periodic dimension, is received once.
        let distinct = transfer.region.most_distinct(ranges).into_iter().fold(size, |n, m| n.saturating_mul(m as u64));
        traffic_bytes = traffic_bytes.saturating_add(received(&transfer.route, distinct.min(tile), times, ranges));
    }
    let tile = (output.capacity as u64).saturating_mul(size);
    let shard = *shards.last().expect("a kernel has an output; this is a bug of polyshard");
    tile_bytes = tile_bytes.saturating_add(tile);
    tile_bytes = tile_bytes.saturating_add((program.leaf.op.scratch() as u64).saturating_mul(size));
    let times = executions(ranges, output.level);
    match output.route {
        OutputRoute::InPlace | OutputRoute::Combine => {}
        OutputRoute::Permute { .. } => {
            tile_bytes = tile_bytes.saturating_add(tile);
            traffic_bytes = traffic_bytes.saturating_add(tile.saturating_mul(times));
        }
        OutputRoute::Exchange => {
            let others = (ranks - 1).saturating_mul(tile.min(shard));
            tile_bytes = tile_bytes.saturating_add(others.saturating_mul(2));
            traffic_bytes = traffic_bytes.saturating_add(others.saturating_mul(times));
        }
    }
    let shard_bytes = shards.iter().fold(0, |sum: u64, &shard| sum.saturating_add(shard));
    Report { proofs, shard_bytes, tile_bytes, traffic_bytes }
}

pub(crate) fn largest_shard(sharding: &Sharding) -> u64 {
    let dims = sharding.dims().iter().zip(sharding.shape());
    dims.map(|(layout, &extent)| match layout {
        DimLayout::Whole => extent as u64,
        DimLayout::Block { block, .. } => (*block).min(extent) as u64,
        DimLayout::Cyclic { parts, block, .. } => {
            // Whole rounds of all parts, and one block more for the first ones.
            let round = parts.saturating_mul(*block);
            (extent / round * block + (extent % round).min(*block)) as u64
        }
    })
    .fold(1, u64::saturating_mul)
}

fn executions(ranges: &Ranges, level: usize) -> u64 {
    ranges.counters[..level].iter().fold(1, |product: u64, &extent| product.saturating_mul(extent.max(0) as u64))
}

/// Bytes packed besides the tile.
fn staging(route: &Route, tile: u64, shard: u64, ranks: u64) -> u64 {
    match route {
        Route::Hold | Route::Copy | Route::Broadcast { .. } => 0,
        // What is not contiguous in the shard is packed before it is sent.
        Route::Permute { .. } => tile.min(shard),
        Route::Shift { first, .. } => staging(first, tile, shard, ranks).max(tile.min(shard)),
        Route::Allgather { .. } => tile.saturating_add(tile.min(shard)),
        Route::Exchange => tile.saturating_add((ranks - 1).saturating_mul(tile.min(shard))),
    }
}

fn received(route: &Route, tile: u64, times: u64, ranges: &Ranges) -> u64 {
    match route {
        Route::Hold | Route::Copy => 0,
        Route::Shift { counter, first, .. } => {
            let extent = ranges.counters[*counter].max(1) as u64;
            let rounds = times / extent;
            let shifted = tile.saturating_mul(times - rounds);
            shifted.saturating_add(received(first, tile, rounds, ranges))
        }
        _ => tile.saturating_mul(times),
    }
}
