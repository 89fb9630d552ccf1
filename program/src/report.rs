//! Bounds of a nest per rank: memory and traffic, from the volumes of its transfers.

use crate::nest::NestView;
use crate::proof::{Proof, Report};
use crate::traffic::Busiest;

/// The bounds of a nest, from counts if given, together with its proofs.
pub(crate) fn report(nest: &NestView<'_>, busiest: Option<&Busiest>, proofs: Vec<Proof>) -> Report {
    let size = nest.kernel.dtype().size() as u64;
    let mut tile_bytes = (nest.leaf.op.scratch() as u64).saturating_mul(size);
    let (volumes, traffic_bytes) = nest.traffic_of(busiest);
    // A reused region is in the tile of another nest.
    for (transfer, volume) in nest.transfers.iter().zip(volumes).filter(|(transfer, _)| transfer.reused.is_none()) {
        let tile = (transfer.tile.capacity as u64).saturating_mul(size);
        let buffers = tile.saturating_mul(transfer.tile.buffers.count());
        // Data sent ahead and data received are held for each iteration in flight.
        let staged = volume.staged.saturating_mul(transfer.ahead as u64 + 1);
        tile_bytes = tile_bytes.saturating_add(buffers).saturating_add(staged);
    }
    // The results of one time step, and of the next one.
    let left = nest.time_steps.as_ref().map_or(0, |steps| (steps.capacity as u64).saturating_mul(2 * size));
    tile_bytes = tile_bytes.saturating_add(left);
    let shards = nest.shardings.iter().map(|sharding| sharding.largest_shard().saturating_mul(size));
    Report { proofs, shard_bytes: shards.fold(0, u64::saturating_add), tile_bytes, traffic_bytes }
}
