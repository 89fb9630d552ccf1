//! What holds of a program: proofs of its kernels, and bounds per rank.

use super::{Array, ArrayKind, Body, Move, Part};
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
        for nest in &body.nests {
            report.tile_bytes = report.tile_bytes.max(nest.report.tile_bytes);
        }
        for moved in &body.moves {
            report.tile_bytes = report.tile_bytes.max(moved.volume(arrays, dtype).staged);
        }
        report.traffic_bytes = body.received(body.parts(), &|moved| moved.volume(arrays, dtype).received);
        report
    }
}

impl Body {
    /// The most bytes that one rank receives by these parts.
    fn received<'a>(&self, parts: impl Iterator<Item = Part<'a>>, of_move: &dyn Fn(&Move) -> u64) -> u64 {
        let received = parts.map(|part| match part {
            Part::Nest(id, _) => self.nests[id.0].report.traffic_bytes,
            Part::Begin(id) => of_move(&self.moves[id.0]),
            Part::Repeat(id, body) => {
                let once = Self::parts_of(body).map(|part| self.received_once(part)).fold(0, u64::saturating_add);
                let all = self.received(Self::parts_of(body), of_move);
                let times = self.repeats[id.0].times;
                // What comes in the first round alone does not come in the others.
                all.saturating_sub(once).saturating_mul(times).saturating_add(if times > 0 { once } else { 0 })
            }
            Part::Await(_) | Part::Free(_) => 0,
        });
        received.fold(0, u64::saturating_add)
    }

    /// The bytes that a part receives in the first round alone of the repetition around it.
    fn received_once(&self, part: Part<'_>) -> u64 {
        let Part::Nest(id, _) = part else { return 0 };
        let nest = &self.nests[id.0];
        let once = nest.transfers.iter().zip(nest.volumes()).filter(|(transfer, _)| transfer.once);
        once.map(|(_, volume)| volume.received).fold(0, u64::saturating_add)
    }
}
