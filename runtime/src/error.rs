//! Errors of running programs.
//!
//! Mistakes of the caller are one enum per subject, in a file of its own, whose variants have fields to match on.
//! Failures that ranks report to each other are text.

mod array;
mod detect;
mod file;
mod group;
mod redistribution;
mod reduction;
mod run;

use crate::comm;
use crate::layout::{Name, joined};
pub use array::ArrayError;
pub use detect::DetectError;
pub use file::{FileError, FileErrorKind};
pub use group::GroupError;
use polyshard_comm::named;
pub use polyshard_comm::{CommError, LaunchError};
pub use polyshard_leaf::LeafError;
use polyshard_memory::MemoryError;
use polyshard_program::Program;
pub use redistribution::RedistributionError;
pub use reduction::ReductionRunError;
pub use run::{RunError, WrongElement};
use std::fmt;
use std::panic::Location;

/// The result of everything that can fail while a program runs.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the line of the call to the error of a tracked function; the line of the outermost call counts.
#[track_caller]
pub(crate) fn at_caller<R>(result: Result<R>) -> Result<R> {
    let at = Location::caller();
    result.map_err(|error| error.called(at, || None))
}

/// An error of the runtime; the message ends with the cure.
///
/// `fn main() -> Result` prints `Debug`, so `Debug` is the message.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::{Error, GroupError};
/// polyshard::spmd(2, |world| {
///     let refused = world.check_mesh(&Mesh::new([("x", 3)]));
///     assert!(matches!(refused, Err(Error::Group(GroupError::Mesh { size: 2, .. }))));
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// An array cannot be distributed, or its elements cannot be used.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The ranks of a world cannot be grouped or numbered along a mesh.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A communicator or a collective refuses its arguments.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Ranks cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A leaf cannot be registered or called.
    #[error(transparent)]
    Leaf(#[from] LeafError),
    /// An array cannot be redistributed.
    #[error(transparent)]
    Redistribution(#[from] RedistributionError),
    /// A reduction cannot run on the given ranks and arrays.
    #[error(transparent)]
    Reduction(#[from] ReductionRunError),
    /// The machine cannot be detected.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// A program or a kernel cannot run on the given arrays and scalars.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Ranks make different calls, or deadlock.
    #[error("{0}")]
    Mismatch(String),
    /// Another rank failed; `message` is the first failure.
    #[error("rank {rank} failed: {message}")]
    Aborted {
        /// The rank that failed first.
        rank: usize,
        message: String,
    },
    /// A rank returned an error or panicked, which ended the program on all ranks.
    #[error("{}", named(*.rank, .message))]
    Failed {
        /// The rank that failed first; of ranks with the same message, the lowest.
        rank: usize,
        message: String,
    },
    /// Reading or writing a file failed.
    #[error(transparent)]
    File(Box<FileError>),
    /// Rank 0 failed at a task for all ranks: the others get this, rank 0 the error itself.
    #[error("{message}")]
    Root { message: String },
    /// There is too little memory.
    #[error("{}", lack_of_memory(.what, *.bytes, .why))]
    Memory {
        /// The purpose of the memory, and the array.
        what: Box<str>,
        bytes: u128,
        /// How much is free, or the system's message.
        why: Box<str>,
    },
    /// The system does not let this rank map memory of another rank of its node.
    #[error("cannot map {bytes} bytes of rank {rank}, on the same node: {why}; set `POLYSHARD_TRANSPORT=messages`")]
    Mapping {
        /// The other rank.
        rank: usize,
        /// The bytes of its shard.
        bytes: usize,
        why: Box<str>,
    },
    /// The MPI library reported an error.
    #[error("{0}")]
    Mpi(String),
    /// A call that runs a program or makes an array was refused or failed: its line, and the program.
    #[error("{error}\n  --> {at}{}", .program.as_ref().map_or(String::new(), |program| format!(", in `{program}`")))]
    Call {
        /// The cause, never another `Call`.
        error: Box<Error>,
        at: &'static Location<'static>,
        /// The kernels of the program, or its outputs if it has none.
        program: Option<Box<str>>,
    },
}

impl Error {
    /// Returns the cause, without the call.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::runtime::{Error, GroupError, spmd};
    /// let whole = Sharding::replicated(&Mesh::new([("x", 2)]), &[4]);
    /// spmd(1, |world| {
    ///     let error = DistArray::filled(world, &whole, 0.0).expect_err("one rank is too few");
    ///     assert!(matches!(error.cause(), Error::Group(GroupError::Mesh { .. })));
    ///     assert!(error.location().is_some_and(|at| error.to_string().ends_with(&at.to_string())));
    ///     Ok::<_, Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::Call { error, .. } => error,
            error => error,
        }
    }

    /// Returns the caller's line, if the failed call has recorded it.
    #[must_use]
    pub fn location(&self) -> Option<&'static Location<'static>> {
        match self {
            Self::Call { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Adds the line and the names of a call that runs a program; the line of the outermost call counts.
    pub(crate) fn in_program(self, at: &'static Location<'static>, program: &Program) -> Self {
        self.called(at, || {
            let kernels: Vec<Name> = program.nests().map(|nest| nest.kernel.name()).collect();
            let names = if kernels.is_empty() { program.outputs().map(|array| array.name).collect() } else { kernels };
            Some(joined(names, ", ").into())
        })
    }

    fn called(self, at: &'static Location<'static>, program: impl FnOnce() -> Option<Box<str>>) -> Self {
        match self {
            Self::Call { error, .. } => error.called(at, program),
            Self::Array(_)
            | Self::Group(_)
            | Self::Comm(_)
            | Self::Leaf(_)
            | Self::Redistribution(_)
            | Self::Reduction(_)
            | Self::Run(_)
            | Self::Memory { .. }
            | Self::Mapping { .. } => Self::Call { error: Box::new(self), at, program: program() },
            other => other,
        }
    }
}

fn lack_of_memory(what: &str, bytes: u128, why: &str) -> MemoryError {
    MemoryError { what: what.into(), bytes, why: why.into() }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Self::File(Box::new(error))
    }
}

impl From<comm::Error> for Error {
    fn from(error: comm::Error) -> Self {
        match error {
            comm::Error::Comm(error) => error.into(),
            comm::Error::Launch(error) => error.into(),
            comm::Error::Memory(error) => error.into(),
            comm::Error::Mismatch(message) => Self::Mismatch(message),
            comm::Error::Aborted { rank, message } => Self::Aborted { rank, message },
            comm::Error::Mpi(message) => Self::Mpi(message),
        }
    }
}

impl From<MemoryError> for Error {
    fn from(MemoryError { what, bytes, why }: MemoryError) -> Self {
        Self::Memory { what, bytes, why }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduction::Procedure;
    use crate::{Reduction, spmd};

    #[test]
    fn an_error_is_not_larger_than_results_can_carry() {
        assert!(size_of::<Error>() <= 64, "{} bytes", size_of::<Error>());
    }

    #[test]
    fn a_reduction_of_other_ranks_or_elements_is_refused_with_both_numbers() {
        let pair = |ranks| Procedure::in_order(vec![ranks]).expect("each rank is in one group");
        let errors = spmd(2, |world| {
            let other = Reduction::<f32>::new(world, &pair(vec![0, 1, 2]), 4).err();
            let long = Reduction::<f32>::new(world, &pair(vec![0, 1]), 4)?.run(&mut [0.0; 5], crate::ReduceOp::Sum);
            Ok::<_, Error>([other, long.err()])
        });
        let other = ReductionRunError::Ranks { ranks: 3, size: 2 };
        let long = ReductionRunError::Length { given: 5, elements: 4 };
        assert_eq!(errors.expect("both ranks go on")[0], [other, long].map(|error| Some(Error::Reduction(error))));
    }
}
