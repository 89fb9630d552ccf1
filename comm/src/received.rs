//! Counts of the data that a rank receives.

use std::sync::{Mutex, PoisonError};

/// Data received from other ranks, by messages and in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Messages and collectives from which it received bytes.
    pub messages: u64,
    /// The bytes of these.
    pub bytes_by_messages: u64,
    /// How often it has read from the memory of other ranks, instead of a message.
    pub in_place: u64,
    /// The bytes of these reads.
    pub bytes_in_place: u64,
}

impl Received {
    /// Returns all bytes, by messages and in place.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_by_messages + self.bytes_in_place
    }

    /// Returns the difference from an earlier count, `before`.
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

/// The count shared by all groups of one rank, on its thread and on its progress thread.
#[derive(Debug, Default)]
pub(super) struct Counter(Mutex<Received>);

impl Counter {
    pub(super) fn get(&self) -> Received {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the bytes of a message or a collective.
    pub(super) fn message(&self, bytes: usize) {
        let mut received = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        received.messages += u64::from(bytes > 0);
        received.bytes_by_messages += bytes as u64;
    }

    /// Counts bytes read in place of a message.
    pub(super) fn in_place(&self, bytes: usize) {
        let mut received = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        received.in_place += u64::from(bytes > 0);
        received.bytes_in_place += bytes as u64;
    }
}
