//! One error type for everything a program does.

use polyshard_layout::{ShardingError, UnknownDType};
use polyshard_machine::MachineError;
use polyshard_planner::placement::{PlacedMesh, PlacementError};
use polyshard_planner::reduce::ReduceError;
use polyshard_planner::{PlanError, SequenceError, TypeError};
use polyshard_polyhedral::LowerError;
use polyshard_search::product::ProductError;
use std::fmt;

/// The result of Polyshard's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong, from writing a schedule to running it.
///
/// `fn main() -> polyshard::Result<()>` prints `Debug`, so `Debug` is the message.
///
/// ```
/// use polyshard::Error;
/// use polyshard::prelude::*;
/// fn rows(parts: usize) -> polyshard::Result<Program> {
///     let sum = kernel! { fn sum(A: [f32; 8, 4]) -> b: [f32; 8] { b[i] += A[i, j] } };
///     Ok(sum.divide("i", "io", "ii", parts).lower()?)
/// }
/// assert!(rows(2).is_ok());
/// let Err(Error::Lower(error)) = rows(0) else { panic!("there are no 0 parts") };
/// assert_eq!(error.step(), Some(1));
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum Error {
    /// A schedule has no program.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A sharding is invalid.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// There is no element type of this name.
    #[error(transparent)]
    DType(#[from] UnknownDType),
    /// Statements and arrays do not make a program.
    #[error(transparent)]
    Program(#[from] polyshard_program::ProgramError),
    /// A distributed type is invalid.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// There is no plan for a redistribution.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A machine is invalid, or cannot do what is asked of it.
    #[error(transparent)]
    Machine(#[from] Box<MachineError>),
    /// A mesh cannot be placed on a machine.
    #[error(transparent)]
    Placement(#[from] Box<PlacementError>),
    /// A reduction cannot be made.
    #[error(transparent)]
    Reduce(#[from] Box<ReduceError>),
    /// There is no plan for a product of sharded arrays.
    #[error(transparent)]
    Product(#[from] ProductError),
    /// A program has no price on a machine.
    #[error(transparent)]
    Cost(#[from] polyshard_planner::cost::CostError),
    /// No schedule is found.
    #[error(transparent)]
    Search(#[from] Box<polyshard_search::SearchError>),
    /// A kernel is invalid.
    #[error(transparent)]
    Kernel(#[from] Box<polyshard_program::KernelError>),
    /// A text is not an einsum over the arrays.
    #[error(transparent)]
    Einsum(#[from] polyshard_dsl::EinsumError),
    /// A text is not a valid kernel or chain.
    #[error(transparent)]
    Parse(#[from] polyshard_dsl::ParseError),
    /// The stages of a sequence do not fit together.
    #[error(transparent)]
    Sequence(#[from] Box<SequenceError>),
    /// A world is to be placed that is placed already.
    #[error("the world is placed already, {name}; give `place` the world that `spmd` gives")]
    PlacedAlready {
        /// What messages call the placement that the world has.
        name: String,
    },
    /// A reduction is to run in a world under another placement.
    #[error(
        "a reduction on {placed} cannot run in a world that is placed otherwise, {name}; give the world that `spmd` \
         gives, or that one placed alike"
    )]
    PlacedOtherwise {
        placed: Box<PlacedMesh>,
        /// What messages call the placement that the world has.
        name: String,
    },
    /// A program failed while it ran.
    #[error(transparent)]
    Runtime(#[from] polyshard_runtime::Error),
    /// Anything else: what a closure given to [`spmd`](crate::spmd) brings along.
    #[error(transparent)]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<MachineError> for Error {
    fn from(error: MachineError) -> Self {
        Self::Machine(Box::new(error))
    }
}

impl From<polyshard_program::KernelError> for Error {
    fn from(error: polyshard_program::KernelError) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl From<PlacementError> for Error {
    fn from(error: PlacementError) -> Self {
        Self::Placement(Box::new(error))
    }
}

impl From<ReduceError> for Error {
    fn from(error: ReduceError) -> Self {
        Self::Reduce(Box::new(error))
    }
}

impl From<polyshard_search::SearchError> for Error {
    fn from(error: polyshard_search::SearchError) -> Self {
        Self::Search(Box::new(error))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Other(Box::new(error))
    }
}
