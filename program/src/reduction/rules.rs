//! The rules of the collectives: the state that each needs, and its result (Xie et al., figure 8).
//!
//! ```text
//! { every device has the same chunks, no device twice in one }   AllReduce      { each: the union }
//!                         the same, chunks divisible             ReduceScatter  { each: a piece of the union }
//!                         the same                               Reduce         { first: the union; others: nothing }
//! { equally many chunks on every device, none in common }        AllGather      { each: all chunks }
//! { the first has all data, and some device has less }           Broadcast      { each: all data of the first }
//! ```
//!
//! The figure is not in the text of the paper (N. Xie, T. Norman, D. Grewe and D. Vytiniotis, "Synthesizing optimal
//! parallelism placement and reduction strategies on hierarchical systems for deep learning", MLSys 2022). These rules follow its
//! description, with two things made definite: the three reducing operations leave a group that holds nothing as it is, so `Parallel` may
//! follow a `Reduce`; and an all-gather needs data from every member. With them the totals of the paper's tables are reproduced.

use super::state::Context;
use polyshard_layout::{Collective, counted, joined};
use std::fmt;

/// The collectives that reductions are made of.
pub const COLLECTIVES: [Collective; 5] = [
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::AllGather,
    Collective::Reduce,
    Collective::Broadcast,
];

/// The effect of a collective on a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The state of its devices has changed.
    Done,
    /// Its devices hold nothing, and nothing happened.
    Idle,
}

/// Why a collective must not be applied to a group. Devices and chunks are counted from 0.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Violation {
    /// A collective that reductions do not use.
    #[error("{collective} is not a reduction step; use {}", joined(COLLECTIVES, ", "))]
    NotOfReductions { collective: Collective },
    /// Chunks that are not the same would be added.
    #[error("devices {first} and {other} hold different chunks, which would be added")]
    DifferentChunks { first: usize, other: usize },
    /// A device's data would be added twice.
    #[error("the data of device {contributor} would be added twice in chunk {chunk}")]
    AddedTwice { contributor: usize, chunk: usize },
    /// Chunks that cannot be scattered evenly.
    #[error(
        "{} cannot be scattered over {devices} devices; make the number of chunks a multiple",
        counted(*chunks, "chunk")
    )]
    Indivisible { chunks: usize, devices: usize },
    /// A chunk that would be gathered from two.
    #[error("devices {first} and {other} both hold chunk {chunk}, so there is nothing to gather")]
    HeldTwice { first: usize, other: usize, chunk: usize },
    /// A gather of unequal pieces.
    #[error(
        "device {first} holds {} and device {other} holds {others}; a gather needs the same number from each, and at \
         least one",
        counted(*chunks, "chunk")
    )]
    Unequal { first: usize, chunks: usize, other: usize, others: usize },
    /// A broadcast that would lose partial sums.
    #[error("a broadcast from device {first} would discard partial sums held only by device {other}")]
    WouldLose {
        /// The root.
        first: usize,
        other: usize,
    },
    /// A broadcast of data that all devices have.
    #[error("no device lacks data of the first, {first}, so there is nothing to broadcast")]
    NothingNew {
        /// The root.
        first: usize,
    },
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Violation {
    /// Returns the same with devices renumbered: device `p` becomes `ranks[p]`.
    pub(super) fn renumbered(mut self, ranks: &[usize]) -> Self {
        match &mut self {
            Self::DifferentChunks { first, other }
            | Self::HeldTwice { first, other, .. }
            | Self::Unequal { first, other, .. }
            | Self::WouldLose { first, other } => (*first, *other) = (ranks[*first], ranks[*other]),
            Self::AddedTwice { contributor: device, .. } | Self::NothingNew { first: device } => {
                *device = ranks[*device]
            }
            Self::Indivisible { .. } | Self::NotOfReductions { .. } => {}
        }
        self
    }
}

impl Context {
    /// Applies a collective to the devices of one group, in the order given; the first is the root.
    ///
    /// A group of one device, or of none, is left as it is.
    ///
    /// # Errors
    /// If the rule of the collective does not allow it; the context is then as before.
    ///
    /// # Panics
    /// If a device of the group does not exist.
    pub fn apply(&mut self, collective: Collective, group: &[usize]) -> Result<Effect, Violation> {
        if !COLLECTIVES.contains(&collective) {
            return Err(Violation::NotOfReductions { collective });
        }
        let [first, others @ ..] = group else { return Ok(Effect::Idle) };
        assert!(group.iter().all(|&device| device < self.devices()), "{group:?}: there are {} devices", self.devices());
        if others.is_empty() {
            return Ok(Effect::Idle);
        }
        match collective {
            Collective::Broadcast => self.broadcast(*first, others)?,
            Collective::AllGather => self.gather(group)?,
            _ if group.iter().all(|&device| self.matrix(device).iter().all(|word| *word == 0)) => {
                return Ok(Effect::Idle);
            }
            _ => self.reduce(collective, group)?,
        }
        Ok(Effect::Done)
    }

    fn reduce(&mut self, collective: Collective, group: &[usize]) -> Result<(), Violation> {
        let (first, n) = (group[0], group.len());
        let chunks = self.chunks_of(first);
        let mut sum = self.matrix(first).to_vec();
        for &other in &group[1..] {
            if self.chunks_of(other) != chunks {
                return Err(Violation::DifferentChunks { first, other });
            }
            self.add(&mut sum, other)?;
        }
        if collective == Collective::ReduceScatter && !chunks.len().is_multiple_of(n) {
            return Err(Violation::Indivisible { chunks: chunks.len(), devices: n });
        }
        let piece = chunks.len() / n;
        let nothing = vec![0; sum.len()];
        for (position, &device) in group.iter().enumerate() {
            let root_only = collective == Collective::Reduce && position > 0;
            self.set_matrix(device, if root_only { &nothing } else { &sum });
            if collective == Collective::ReduceScatter {
                let kept = position * piece..(position + 1) * piece;
                let lost = chunks.iter().enumerate().filter(|(at, _)| !kept.contains(at));
                lost.for_each(|(_, &chunk)| self.clear(device, chunk));
            }
        }
        Ok(())
    }

    fn gather(&mut self, group: &[usize]) -> Result<(), Violation> {
        let first = group[0];
        let chunks = self.chunks_of(first).len();
        let mut holders: Vec<Option<usize>> = vec![None; self.chunks()];
        let mut all = vec![0; self.matrix(first).len()];
        for &other in group {
            let held = self.chunks_of(other);
            if held.len() != chunks || held.is_empty() {
                return Err(Violation::Unequal { first, chunks, other, others: held.len() });
            }
            for chunk in held {
                if let Some(first) = holders[chunk].replace(other) {
                    return Err(Violation::HeldTwice { first, other, chunk });
                }
            }
            all.iter_mut().zip(self.matrix(other)).for_each(|(all, word)| *all |= word);
        }
        group.iter().for_each(|&device| self.set_matrix(device, &all));
        Ok(())
    }

    fn broadcast(&mut self, first: usize, others: &[usize]) -> Result<(), Violation> {
        let known = self.matrix(first).to_vec();
        let lost = |&&other: &&usize| self.matrix(other).iter().zip(&known).any(|(word, known)| word & !known != 0);
        if let Some(&other) = others.iter().find(lost) {
            return Err(Violation::WouldLose { first, other });
        }
        if others.iter().all(|&other| self.matrix(other) == known) {
            return Err(Violation::NothingNew { first });
        }
        others.iter().for_each(|&other| self.set_matrix(other, &known));
        Ok(())
    }

    /// Adds the rows of a device to `sum`.
    fn add(&self, sum: &mut [u64], device: usize) -> Result<(), Violation> {
        let words = sum.len() / self.chunks().max(1);
        for (at, (sum, word)) in sum.iter_mut().zip(self.matrix(device)).enumerate() {
            let twice = *sum & word;
            if twice != 0 {
                let contributor = at % words * 64 + twice.trailing_zeros() as usize;
                return Err(Violation::AddedTwice { contributor, chunk: at / words });
            }
            *sum |= word;
        }
        Ok(())
    }
}
