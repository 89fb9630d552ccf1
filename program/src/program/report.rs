//! The report of a program: proofs of its kernels, and bounds per rank.

use super::{ArrayKind, Body};
use crate::ids::ArrayId;
use crate::nest::NestView;
use crate::proof::{Proof, Report};
use crate::statement::Statement;
use crate::volume::Volume;
use std::collections::HashSet;

impl Report {
    /// The report of a program: the proofs of its kernels and those that follow for the `flow` between them, its arrays, the tiles and
    /// staging of all statements, which are allocated once and kept, and all bytes received.
    pub(crate) fn of_program(body: &Body, flow: Vec<Proof>) -> Self {
        let (size, arrays) = (body.dtype.size() as u64, &body.arrays);
        let bytes = |id: ArrayId| arrays[id.0].sharding.largest_shard().saturating_mul(size);
        let given = (0..arrays.len())
            .map(ArrayId)
            .filter(|id| matches!(arrays[id.0].kind, ArrayKind::Input | ArrayKind::Output));
        let mut memory: Vec<u64> = Vec::new();
        for (slot, id) in body.slots().into_iter().zip((0..).map(ArrayId)) {
            let Some(slot) = slot else { continue };
            memory.resize(memory.len().max(slot.0 + 1), 0);
            memory[slot.0] = memory[slot.0].max(bytes(id));
        }
        let shard_bytes = given.map(bytes).chain(memory).fold(0, u64::saturating_add);
        let mut report = Self { shard_bytes, ..Self::default() };
        // A claim that several kernels share is listed once.
        let mut known = HashSet::new();
        let proofs = body.kernels.iter().flat_map(|row| &row.report.proofs);
        report.proofs.extend(proofs.filter(|proof| known.insert(*proof)).cloned());
        report.proofs.extend(flow);
        let of_kernels = body.kernels.iter().map(|row| row.report.tile_bytes);
        let of_moves = body.moves().map(|moved| moved.volume().staged);
        report.tile_bytes = of_kernels.chain(of_moves).fold(0, u64::saturating_add);
        report.traffic_bytes = body.received(&body.statements, &body.in_first_round()).first;
        report
    }
}

impl Body {
    /// The report of the program with this body.
    pub(super) fn report(&self) -> Report {
        Report::of_program(self, self.flow().proofs)
    }

    /// Maximum bytes that one rank receives by these statements, where some transfers are in the first round only.
    fn received(&self, statements: &[Statement], first: &[bool]) -> InRounds {
        let received = self.spans(statements).map(|span| match span.statements {
            [Statement::Begin(id, _)] if span.kernel.is_none() => {
                InRounds::alike(self.moved(*id).map_or(0, |moved| moved.volume().received))
            }
            [Statement::Rounds(id, round)] => {
                InRounds::alike(self.received(round, first).in_all(self.rounds[id.0].times))
            }
            _ => {
                let of_kernel = |kernel| {
                    let nest = self.nest(kernel);
                    InRounds::of_nest(&nest, &nest.volumes(), nest.report.traffic_bytes, first)
                };
                self.kernels_of(span).into_iter().map(of_kernel).fold(InRounds::default(), InRounds::and)
            }
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

    /// Returns the bytes received by a kernel whose transfers have these volumes, of which one rank receives at most `received` bytes;
    /// those of `first`, by number, are fetched in the first round only.
    ///
    /// In later rounds, a rank may receive as much as in the first one, if another rank receives the data that is fetched once.
    #[must_use]
    pub fn of_nest(nest: &NestView<'_>, volumes: &[Volume], received: u64, first: &[bool]) -> Self {
        let again = nest.transfers.iter().zip(volumes).filter(|(transfer, _)| !first[transfer.id.0]);
        let again = again.map(|(_, volume)| volume.received).fold(0, u64::saturating_add);
        Self { first: received, later: received.min(again) }
    }

    /// Returns the bytes received by two spans, one after the other.
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
