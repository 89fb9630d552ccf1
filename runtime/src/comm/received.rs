//! What a rank counts of what it receives.

use std::cell::Cell;

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

/// What the groups of one rank count together.
#[derive(Debug, Default)]
pub(super) struct Counter(Cell<Received>);

impl Counter {
    pub(super) fn get(&self) -> Received {
        self.0.get()
    }

    pub(super) fn set(&self, received: Received) {
        self.0.set(received);
    }

    /// Counts what a message or a collective has brought.
    pub(super) fn message(&self, bytes: usize) {
        let before = self.get();
        let (messages, bytes) = (before.messages + u64::from(bytes > 0), before.bytes_by_messages + bytes as u64);
        self.set(Received { messages, bytes_by_messages: bytes, ..before });
    }

    /// Counts what has come in place of a message.
    pub(super) fn in_place(&self, bytes: usize) {
        let before = self.get();
        let (times, bytes) = (before.in_place + u64::from(bytes > 0), before.bytes_in_place + bytes as u64);
        self.set(Received { in_place: times, bytes_in_place: bytes, ..before });
    }
}
