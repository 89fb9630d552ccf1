//! Errors of communicators.

mod comm;
mod launch;

pub use comm::CommError;
pub use launch::LaunchError;
use polyshard_memory::MemoryError;
use std::fmt;

/// The result of everything that communicates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a communicator; the message ends with the cure.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// A communicator or a collective refuses its arguments.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Ranks cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// There is too little memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
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
    /// The MPI library reported an error.
    #[error("{0}")]
    Mpi(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Puts the rank before a message that does not begin with it.
#[must_use]
pub fn named(rank: usize, message: &str) -> String {
    if message.starts_with(&format!("rank {rank} ")) { message.into() } else { format!("rank {rank}: {message}") }
}
