//! What a search may take, and what it may find.

use std::time::{Duration, Instant};

/// Limits of a search, as data: where they come from elsewhere than a program's text.
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
    /// The bytes that a rank may hold, in place of what the machine's devices have.
    pub memory: Option<u64>,
    /// After so long the search ends, once there is a schedule. While nothing fits into the memory, a quarter of it goes to what is fast, and what is left to
    /// what needs little memory; if nothing can fit, the last quarter goes to how many ranks would do.
    pub at_most: Option<Duration>,
}

impl Limits {
    /// When so many quarters of the time are over of what began then; none if no clock goes so far.
    pub(crate) fn until(&self, start: Instant, quarters: u32) -> Option<Instant> {
        start.checked_add(self.at_most? / 4 * quarters)
    }

    /// What is left of them for what goes on.
    pub(crate) fn since(self, start: Instant) -> Self {
        Self { at_most: self.at_most.map(|limit| limit.saturating_sub(start.elapsed())), ..self }
    }
}

/// Whether it is later than that.
pub(crate) fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() > until)
}
