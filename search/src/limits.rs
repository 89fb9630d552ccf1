//! Limits on the time of a search, and on the memory of its schedules.

use std::time::{Duration, Instant};

/// Limits of a search, as data, for limits that are not in the source text.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::Limits;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 1024, 1024], B: [f32; 1024, 1024]) -> C: [f32; 1024, 1024] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let limits = Limits { memory: Some(8 << 20), ..Limits::default() };
/// let choice = matmul.auto(4, &machine).limits(limits).find()?;
/// assert!(choice.cost().memory <= 8 << 20);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The bytes that a rank may hold, instead of the memory of the machine's devices.
    pub memory: Option<u64>,
    /// Search time limit; the search ends at this time, once it has a schedule. If nothing fits into the memory, a
    /// quarter of the time is for fast schedules and the rest for schedules that need little memory; if none can fit,
    /// the last quarter is for finding how many ranks would be enough.
    pub at_most: Option<Duration>,
}

impl Limits {
    /// Returns when this many quarters of the limit, counted from `start`, are over; `None` without a limit, or if the
    /// clock overflows.
    pub(crate) fn until(&self, start: Instant, quarters: u32) -> Option<Instant> {
        start.checked_add(self.at_most? / 4 * quarters)
    }

    /// Returns the limits with the time that is left of a search that began at `start`.
    pub(crate) fn since(self, start: Instant) -> Self {
        Self { at_most: self.at_most.map(|limit| limit.saturating_sub(start.elapsed())), ..self }
    }
}

/// Whether this time, if any, has passed.
pub(crate) fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() > until)
}

/// The methods of a search that set its limits.
macro_rules! limited {
    () => {
        /// Sets the bytes that a rank may hold, instead of the memory of the machine's devices. They are counted as in
        /// [`Cost::memory`](polyshard_planner::cost::Cost::memory): arrays, tiles and messages in flight, but not the
        /// copies of operands that matrix products make while they run.
        pub fn memory(self, bytes: u64) -> Self {
            Self { limits: $crate::Limits { memory: Some(bytes), ..self.limits }, ..self }
        }

        /// Ends the search after this time, once there is a schedule; the schedules left open determine the
        /// [gap](crate::Choice::gap).
        pub fn at_most(self, time: std::time::Duration) -> Self {
            Self { limits: $crate::Limits { at_most: Some(time), ..self.limits }, ..self }
        }

        /// Sets both limits, as data.
        pub fn limits(self, limits: $crate::Limits) -> Self {
            Self { limits, ..self }
        }
    };
}
pub(crate) use limited;
