//! Bounds of a nest per rank: memory and traffic, from the volumes of its transfers.

use crate::nest::Nest;
use crate::proof::{Proof, Report};
use crate::shards::largest_shard;
use crate::traffic::Busiest;

/// The bounds of a nest, given what was counted, beside what was proved of it.
pub(crate) fn report(nest: &Nest, busiest: Option<&Busiest>, proofs: Vec<Proof>) -> Report {
    let size = nest.kernel.dtype().size() as u64;
    let mut tile_bytes = (nest.leaf.op.scratch() as u64).saturating_mul(size);
    let mut traffic_bytes = 0u64;
    for (transfer, volume) in nest.transfers.iter().zip(nest.volumes_of(busiest)) {
        let tile = (transfer.tile.capacity as u64).saturating_mul(size);
        let buffers = tile.saturating_mul(transfer.tile.buffers.count());
        tile_bytes = tile_bytes.saturating_add(buffers).saturating_add(volume.staged);
        traffic_bytes = traffic_bytes.saturating_add(volume.received);
    }
    // The busiest rank need not be that of each transfer.
    let traffic_bytes = busiest.map_or(traffic_bytes, |busiest| busiest.total);
    let shards = nest.shardings.iter().map(|sharding| largest_shard(sharding).saturating_mul(size));
    Report { proofs, shard_bytes: shards.fold(0, u64::saturating_add), tile_bytes, traffic_bytes }
}
