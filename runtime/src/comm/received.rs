//! What a rank counts of what it receives.

use std::sync::{Mutex, PoisonError};

/// What a rank has received from other ranks, by how it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Messages and collectives that have brought it bytes.
    pub messages: u64,
    /// The bytes of these.
    pub bytes_by_messages: u64,
    /// How often it has read in the memory of other ranks, or these have written into its memory, in place of a message.
    pub in_place: u64,
    /// The bytes that came so.
    pub bytes_in_place: u64,
}

impl Received {
    /// Returns all bytes, however they came.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_by_messages + self.bytes_in_place
    }

    /// Returns what has come since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            bytes_by_messages: self.bytes_by_messages - before.bytes_by_messages,
            in_place: self.in_place - before.in_place,
            bytes_in_place: self.bytes_in_place - before.bytes_in_place,
        }
    }
}

/// What the groups of one rank count together, on its thread and on its progress thread.
#[derive(Debug, Default)]
pub(super) struct Counter(Mutex<Received>);

impl Counter {
    pub(super) fn get(&self) -> Received {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what a message or a collective has brought.
    pub(super) fn message(&self, bytes: usize) {
        let mut received = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        received.messages += u64::from(bytes > 0);
        received.bytes_by_messages += bytes as u64;
    }

    /// Counts what has come in place of a message.
    pub(super) fn in_place(&self, bytes: usize) {
        let mut received = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        received.in_place += u64::from(bytes > 0);
        received.bytes_in_place += bytes as u64;
    }
}
