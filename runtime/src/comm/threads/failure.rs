//! The first failure of a world of threads, which ends every wait.

use crate::Error;

/// What went wrong first.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The ranks disagree or wait in a circle; the message names each of them.
    Mismatch(String),
    /// A rank returned an error or called abort.
    Error { rank: usize, message: String },
    /// A rank panicked.
    Panic { rank: usize, message: String },
}

impl Failure {
    /// Names the lowest of the ranks that say the same: what all ranks find wrong is told by one of them, and
    /// always by the same one, whichever was the fastest.
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

    /// Returns the error that the ranks get from whatever they wait in.
    pub(super) fn to_waiting(&self) -> Error {
        match self.clone() {
            Self::Mismatch(message) => Error::Mismatch(message),
            Self::Error { rank, message } => Error::Aborted { rank, message },
            Self::Panic { rank, message } => Error::Aborted { rank, message: format!("panic: {message}") },
        }
    }
}
