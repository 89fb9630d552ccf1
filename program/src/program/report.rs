//! What holds of a program: proofs of its kernels, and bounds per rank.

use super::{Array, ArrayKind, Body};
use crate::ids::ArrayId;
use crate::proof::Report;
use crate::shards::largest_shard;
use polyshard_layout::DType;

impl Report {
    /// What holds of a program: what was proved of its kernels, its arrays, the tiles of the
    /// neediest statement, and all that is received.
    pub(crate) fn of_program(dtype: DType, arrays: &[Array], body: &Body) -> Self {
        let size = dtype.size() as u64;
        let bytes = |id: ArrayId| largest_shard(&arrays[id.0].sharding).saturating_mul(size);
        let given = (0..arrays.len()).map(ArrayId).filter(|id| arrays[id.0].kind != ArrayKind::Temporary);
        let mut memory: Vec<u64> = Vec::new();
        for (slot, id) in body.slots(arrays).into_iter().zip((0..).map(ArrayId)) {
            let Some(slot) = slot else { continue };
            memory.resize(memory.len().max(slot + 1), 0);
            memory[slot] = memory[slot].max(bytes(id));
        }
        let shard_bytes = given.map(bytes).chain(memory).fold(0, u64::saturating_add);
        let mut report = Self { shard_bytes, ..Self::default() };
        for nest in &body.nests {
            // What is claimed of several kernels alike is said once.
            let new = nest.report.proofs.iter().filter(|proof| !report.proofs.contains(proof));
            let new: Vec<_> = new.cloned().collect();
            report.proofs.extend(new);
        }
        let of_nests = body.nests.iter().map(|nest| (nest.report.tile_bytes, nest.report.traffic_bytes));
        let of_moves = body.moves.iter().map(|moved| moved.volume(arrays, dtype));
        let of_moves = of_moves.map(|volume| (volume.staged, volume.received));
        for (tiles, traffic) in of_nests.chain(of_moves) {
            report.tile_bytes = report.tile_bytes.max(tiles);
            report.traffic_bytes = report.traffic_bytes.saturating_add(traffic);
        }
        report
    }
}
