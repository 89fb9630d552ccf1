//! Errors in the steps of a reduction.

use super::rules::Violation;
use polyshard_layout::{Collective, counted};
use std::fmt;

/// Why steps are not a reduction.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ReductionError {
    /// A step, counted from 1, that breaks a rule of reductions.
    #[error("step {step}, {collective} in the group {group:?}: {violation}")]
    Rule { step: usize, collective: Collective, group: Vec<usize>, violation: Violation },
    /// A group of a step, counted from 1, that mixes ranks which must not be summed: those of `reduced` are to be summed with each
    /// other alone.
    #[error(
        "step {step}: the group {group:?} mixes some of the ranks {reduced:?} with others that must not be summed \
         with them"
    )]
    Joined { step: usize, group: Vec<usize>, reduced: Vec<usize> },
    /// Groups, to be summed or of a step, that do not have each rank once.
    #[error("rank {rank} {why}; the groups to be summed have each of the ranks 0..{ranks} once")]
    Ranks { rank: usize, why: &'static str, ranks: usize },
    /// An array of no chunks.
    #[error("an array of 0 chunks has nothing to sum; give 1 or more")]
    NoChunks,
    /// An array of more chunks than its steps divide it into.
    #[error("{chunks} chunks are more than these steps make of an array on this many ranks; give {most} or fewer")]
    TooManyChunks { chunks: usize, most: usize },
    /// A step, counted from 1, that misstates how much of the array its ranks hold.
    #[error(
        "step {step}: rank {rank} holds {held} of {}, which is not one of {parts} parts of the array",
        counted(*chunks, "chunk")
    )]
    Parts { step: usize, rank: usize, held: usize, chunks: usize, parts: usize },
    /// A program that ends before every rank has the sum: one lacks so many chunks of it, or has them in part.
    #[error("after the last step rank {rank} lacks {missing} of {} of the sum; add steps", counted(*chunks, "chunk"))]
    Incomplete { rank: usize, missing: usize, chunks: usize },
}

impl fmt::Debug for ReductionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
