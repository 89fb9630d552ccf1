//! One error type for everything a program does.

use polyshard_layout::{MeshError, ShardingError, UnknownDType};
use polyshard_machine::MachineError;
use polyshard_planner::placement::{PlacedMesh, PlacementError};
use polyshard_planner::reduce::ReduceError;
use polyshard_planner::{PlanError, SequenceError, TypeError};
use polyshard_polyhedral::LowerError;
use std::fmt;

/// The result of Polyshard's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of any stage, from writing a schedule to running it.
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
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// A schedule cannot be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A mesh is invalid.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// A sharding is invalid.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// An element type is unknown.
    #[error(transparent)]
    DType(#[from] UnknownDType),
    /// Statements and arrays do not make a program.
    #[error(transparent)]
    Program(#[from] polyshard_program::ProgramError),
    /// A distributed type is invalid.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A redistribution cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A machine, or a question about it, is invalid.
    #[error(transparent)]
    Machine(#[from] Box<MachineError>),
    /// A mesh cannot be placed on a machine.
    #[error(transparent)]
    Placement(#[from] Box<PlacementError>),
    /// A reduction is invalid.
    #[error(transparent)]
    Reduce(#[from] Box<ReduceError>),
    /// A program cannot be priced on a machine.
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
    /// The world is already placed.
    #[error("the world is already placed, {name}; call `place` with the world of `spmd`")]
    PlacedAlready {
        /// The world's placement, as messages name it.
        name: String,
    },
    /// The reduction is for another placement than the world's.
    #[error(
        "a reduction on {placed} cannot run in a world with another placement, {name}; pass the world of `spmd`, or \
         place it like the reduction"
    )]
    PlacedOtherwise {
        placed: Box<PlacedMesh>,
        /// The world's placement, as messages name it.
        name: String,
    },
    /// A program failed while it ran.
    #[error(transparent)]
    Runtime(#[from] polyshard_runtime::Error),
    /// Any other error of a closure given to [`spmd`](crate::spmd).
    #[error(transparent)]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Errors of the crates that the runtime is made of.
macro_rules! of_the_runtime {
    ($($error:ty)*) => { $(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::Runtime(error.into())
            }
        }
    )* };
}
of_the_runtime!(polyshard_runtime::comm::Error polyshard_runtime::LeafError polyshard_runtime::MemoryError);

/// Errors that are kept in a box.
macro_rules! boxed {
    ($($error:ty => $kind:ident)*) => { $(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$kind(Box::new(error))
            }
        }
    )* };
}
boxed! {
    MachineError => Machine
    polyshard_program::KernelError => Kernel
    PlacementError => Placement
    ReduceError => Reduce
    polyshard_search::SearchError => Search
    std::io::Error => Other
}
