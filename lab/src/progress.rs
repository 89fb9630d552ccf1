//! The next step of a measurement, for progress displays.

use std::fmt::Display;

/// The next step of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps done so far.
    pub done: usize,
    /// All steps; they take different times.
    pub total: usize,
    /// The call timed next, such as `AllGather of 1 KiB on 4 ranks`.
    pub next: String,
}

/// The steps of a measurement, reported one by one.
pub(super) struct Steps<'a> {
    pub(super) done: usize,
    pub(super) total: usize,
    pub(super) tell: &'a mut dyn FnMut(&Progress),
}

impl Steps<'_> {
    /// Begins the next step.
    pub(super) fn next(&mut self, what: impl Display) {
        (self.tell)(&Progress { done: self.done, total: self.total, next: what.to_string() });
        self.done += 1;
    }
}
