//! What can be wrong with a reduction that a user asks for or writes down.

use super::{Collective, Violation};
use crate::placement::PlacementError;
use polyshard_machine::{MachineError, units::counted};
use std::fmt;

/// Why a reduction cannot be made.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReduceError {
    /// The placement is none, or lacks an axis.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The machine cannot do it.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A level that the hierarchy lacks.
    #[error("no level {level}; the hierarchy {hierarchy} has levels 0..{levels}")]
    NoLevel {
        /// The level given.
        level: usize,
        /// The hierarchy.
        hierarchy: String,
        /// How many levels it has.
        levels: usize,
    },
    /// A form whose level is not outside the slice.
    #[error(
        "level {ancestor} of the form is not outside level {slice} of the slice; name one of {}",
        if *slice == 0 { "none, and use `InsideGroup`".into() } else { format!("0..{slice}") }
    )]
    NoAncestor {
        /// The form's level.
        ancestor: usize,
        /// The slice.
        slice: usize,
    },
    /// A level of count 0, or too many devices.
    #[error(
        "levels of {counts:?} members are not a hierarchy; give each 1 or more, and fewer than 2^64 devices in all"
    )]
    Counts {
        /// The counts.
        counts: Vec<usize>,
    },
    /// A program that adds what must not be added, or gathers what is not apart.
    #[error("step {step}, {collective} in the group {group:?}: {violation}")]
    Rule {
        /// The step, counted from 1.
        step: usize,
        /// Its collective.
        collective: Collective,
        /// The group's ranks.
        group: Vec<usize>,
        /// The rule that is broken.
        violation: Violation,
    },
    /// A step all of whose groups hold nothing.
    #[error("step {step}, {collective}: no group of two ranks or more holds anything; leave the step out")]
    Nothing {
        /// The step, counted from 1.
        step: usize,
        /// Its collective.
        collective: Collective,
    },
    /// A step whose ranks hold different amounts.
    #[error(
        "step {step}, {collective}: one rank holds {first} and another {other}; let those that take part hold \
             as much"
    )]
    Uneven {
        /// The step, counted from 1.
        step: usize,
        /// Its collective.
        collective: Collective,
        /// What one holds: `all of the array`, `1/4 of the array`, `nothing`.
        first: String,
        /// What another holds.
        other: String,
    },
    /// A gather of more pieces than there are.
    #[error("step {step}, AllGather: {ranks} ranks hold {held} each, which is more than the array; scatter it first")]
    Whole {
        /// The step, counted from 1.
        step: usize,
        /// The ranks of a group.
        ranks: usize,
        /// What each holds.
        held: String,
    },
    /// A group that joins ranks which must not be summed.
    #[error(
        "step {step}: the group {group:?} joins some of the ranks {reduced:?} with others, which are not to be \
             summed with them"
    )]
    Joined {
        /// The step, counted from 1.
        step: usize,
        /// The group.
        group: Vec<usize>,
        /// Ranks that are to be summed with each other alone.
        reduced: Vec<usize>,
    },
    /// Groups to be summed, or of a step, that are not of ranks numbered from 0.
    #[error("rank {rank} {why}; the groups to be summed have each of the ranks 0..{ranks} once")]
    Ranks {
        /// The rank.
        rank: usize,
        /// What is wrong with it.
        why: &'static str,
        /// How many ranks there are.
        ranks: usize,
    },
    /// An array of no chunks.
    #[error("an array of 0 chunks has nothing to sum; give 1 or more")]
    NoChunks,
    /// A step that says that ranks hold something else than they do.
    #[error(
        "step {step}: rank {rank} holds {held} of {}, which is not one of {parts} parts of the array",
        counted(chunks, "chunk")
    )]
    Parts {
        /// The step, counted from 1.
        step: usize,
        /// A rank.
        rank: usize,
        /// The chunks that it holds.
        held: usize,
        /// How many there are.
        chunks: usize,
        /// What the step says.
        parts: usize,
    },
    /// A program that ends before the sum is everywhere.
    #[error("after the last step rank {rank} lacks {missing} of {} of the sum; add steps", counted(chunks, "chunk"))]
    Incomplete {
        /// A rank that lacks some.
        rank: usize,
        /// How many chunks it lacks or has in part.
        missing: usize,
        /// How many there are.
        chunks: usize,
    },
}

impl fmt::Debug for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
