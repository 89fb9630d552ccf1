//! Errors of reductions.

use crate::placement::PlacementError;
use polyshard_machine::MachineError;
use polyshard_program::DType;
use polyshard_program::reduction::{Collective, ReductionError};
use std::fmt;

/// Why a reduction is invalid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ReduceError {
    /// The placement is invalid, or lacks an axis.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The machine, or a question about it, is invalid.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The steps are not a reduction of these ranks.
    #[error(transparent)]
    Steps(#[from] ReductionError),
    /// The hierarchy lacks a level.
    #[error("no level {level}; the hierarchy {hierarchy} has levels 0..{levels}")]
    NoLevel { level: usize, hierarchy: String, levels: usize },
    /// The level of a form is not outside the slice.
    #[error(
        "level {ancestor} of the form is not outside level {slice} of the slice; {}",
        if *slice == 0 { "use `InsideGroup`".into() } else { format!("name one of 0..{slice}") }
    )]
    NoAncestor { ancestor: usize, slice: usize },
    /// A level has count 0, or there are too many devices.
    #[error(
        "levels of {counts:?} members are not a hierarchy; give each 1 or more, and fewer than 2^64 devices in all"
    )]
    Counts { counts: Vec<usize> },
    /// No group of a step, counted from 1, holds anything.
    #[error("step {step}, {collective}: no group of two ranks or more holds anything; leave the step out")]
    Nothing { step: usize, collective: Collective },
    /// The ranks of a step, counted from 1, hold different amounts: `all of the array`, `1/4 of the array`, `nothing`.
    #[error(
        "step {step}, {collective}: one rank holds {first} and another {other}; all ranks of a step must hold the \
             same amount"
    )]
    Uneven { step: usize, collective: Collective, first: String, other: String },
    /// A gather in a step, counted from 1, makes more than the array.
    #[error("step {step}, AllGather: {ranks} ranks hold {held} each, which is more than the array; scatter it first")]
    Whole { step: usize, ranks: usize, held: String },
    /// There are more elements than any memory can hold.
    #[error("an array cannot have {elements} elements of `{dtype}`; give at most {most}")]
    TooLong { elements: usize, dtype: DType, most: usize },
    /// A program does not reduce over the axes.
    #[error("the program `{program}` does not reduce over {over} of {placed}: {why}")]
    WrongProgram { program: String, over: String, placed: String, why: Box<ReduceError> },
    /// The steps do not reduce over the axes.
    #[error("the steps do not reduce over {over} of {placed}: {why}")]
    WrongSteps { over: String, placed: String, why: Box<ReductionError> },
    /// The steps are for other groups than those along the axes.
    #[error(
        "the steps reduce in the groups {given}, but the groups over {over} of {placed} are {wanted}; make steps for \
         these groups"
    )]
    OtherGroups { given: Box<str>, over: Box<str>, placed: Box<str>, wanted: Box<str> },
}

impl fmt::Debug for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
