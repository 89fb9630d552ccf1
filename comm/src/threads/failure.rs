//! The first failure of a world of threads, which ends every wait.

use crate::Error;

/// The first failure.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each has the rank that failed and its message")]
pub enum Failure {
    /// The ranks disagree or wait in a circle; the message names each of them.
    Mismatch(String),
    /// A rank returned an error or called abort.
    Error { rank: usize, message: String },
    /// A rank panicked.
    Panic { rank: usize, message: String },
}

impl Failure {
    /// Keeps the lowest of the ranks with the same message: a failure of all ranks is reported by one of them,
    /// and always by the same one, whichever was the fastest.
    pub(super) fn merge(&mut self, later: &Self) {
        match (self, later) {
            (Self::Error { rank, message }, Self::Error { rank: other, message: same })
            | (Self::Panic { rank, message }, Self::Panic { rank: other, message: same })
                if message == same =>
            {
                *rank = (*rank).min(*other);
            }
            _ => {}
        }
    }

    /// Returns the error for the ranks whose waits it ends.
    pub(super) fn to_waiting(&self) -> Error {
        match self.clone() {
            Self::Mismatch(message) => Error::Mismatch(message),
            Self::Error { rank, message } => Error::Aborted { rank, message },
            Self::Panic { rank, message } => Error::Aborted { rank, message: format!("panic: {message}") },
        }
    }
}
