//! The report of a program: proofs of its kernels, and bounds per rank.

use super::{Array, ArrayKind, Body, Move, Part};
use crate::ids::ArrayId;
use crate::nest::{Brought, Nest};
use crate::proof::{Proof, Report};
use crate::volume::Volume;
use polyshard_layout::DType;

impl Report {
    /// The report of a program: the proofs of its kernels and those that follow for the `flow` between them, its arrays, the tiles and
    /// staging of all statements, which are allocated once and kept, and all bytes received.
    pub(crate) fn of_program(dtype: DType, arrays: &[Array], body: &Body, flow: Vec<Proof>) -> Self {
        let size = dtype.size() as u64;
        let bytes = |id: ArrayId| arrays[id.0].sharding.largest_shard().saturating_mul(size);
        let given = (0..arrays.len()).map(ArrayId).filter(|id| arrays[id.0].kind != ArrayKind::Temporary);
        let mut memory: Vec<u64> = Vec::new();
        for (slot, id) in body.slots(arrays).into_iter().zip((0..).map(ArrayId)) {
            let Some(slot) = slot else { continue };
            memory.resize(memory.len().max(slot.0 + 1), 0);
            memory[slot.0] = memory[slot.0].max(bytes(id));
        }
        let shard_bytes = given.map(bytes).chain(memory).fold(0, u64::saturating_add);
        let mut report = Self { shard_bytes, ..Self::default() };
        for nest in &body.nests {
            // A claim that several kernels share is listed once.
            let new = nest.report.proofs.iter().filter(|proof| !report.proofs.contains(proof));
            let new: Vec<_> = new.cloned().collect();
            report.proofs.extend(new);
        }
        report.proofs.extend(flow);
        let of_nests = body.nests.iter().map(|nest| nest.report.tile_bytes);
        let of_moves = body.moves.iter().map(|moved| moved.volume(arrays, dtype).staged);
        report.tile_bytes = of_nests.chain(of_moves).fold(0, u64::saturating_add);
        report.traffic_bytes = body.received(body.parts(), &|moved| moved.volume(arrays, dtype).received).first;
        report
    }
}

impl Body {
    /// The report of the program with this body.
    pub(super) fn report(&self, dtype: DType, arrays: &[Array]) -> Report {
        Report::of_program(dtype, arrays, self, self.flow(arrays).proofs)
    }

    /// Maximum bytes that one rank receives by these parts.
    fn received<'a>(&self, parts: impl Iterator<Item = Part<'a>>, of_move: &dyn Fn(&Move) -> u64) -> InRounds {
        let received = parts.map(|part| match part {
            Part::Nest(id, _) => {
                let nest = &self.nests[id.0];
                InRounds::of_nest(nest, &nest.volumes(), nest.report.traffic_bytes)
            }
            Part::Begin(id) => InRounds::alike(of_move(&self.moves[id.0])),
            Part::Repeat(id, round) => {
                InRounds::alike(self.received(Self::parts_of(round), of_move).in_all(self.repeats[id.0].times))
            }
            Part::Await(_) | Part::Free(_) => InRounds::default(),
        });
        received.fold(InRounds::default(), InRounds::and)
    }
}

/// Maximum bytes that one rank receives in the first round of a repetition, and in each of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InRounds {
    /// In the first round.
    pub first: u64,
    /// In each round after it.
    pub later: u64,
}

impl InRounds {
    /// Returns the same number of bytes in each round.
    #[must_use]
    pub fn alike(bytes: u64) -> Self {
        Self { first: bytes, later: bytes }
    }

    /// Returns the bytes received by a nest whose transfers have these volumes, if one rank receives at most `received` bytes of them.
    ///
    /// In later rounds, a rank may receive as much as in the first one, if another rank receives the data that is fetched once.
    #[must_use]
    pub fn of_nest(nest: &Nest, volumes: &[Volume], received: u64) -> Self {
        let again = nest.transfers.iter().zip(volumes).filter(|(transfer, _)| transfer.brought == Brought::EachTime);
        let again = again.map(|(_, volume)| volume.received).fold(0, u64::saturating_add);
        Self { first: received, later: received.min(again) }
    }

    /// Returns the bytes received by two parts, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let add = u64::saturating_add;
        Self { first: add(self.first, other.first), later: add(self.later, other.later) }
    }

    /// Returns the bytes received in this many rounds.
    #[must_use]
    pub fn in_all(self, times: u64) -> u64 {
        match times.checked_sub(1) {
            None => 0,
            Some(later) => self.first.saturating_add(self.later.saturating_mul(later)),
        }
    }
}
