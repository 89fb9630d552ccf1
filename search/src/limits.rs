//! What a search may take, and what it may find.

use std::time::Duration;

/// Limits of a search, as data: where they come from elsewhere than a program's text.
///
/// ```
/// use polyshard_machine::Machine;
/// use polyshard_polyhedral::Schedule;
/// use polyshard_program::example;
/// use polyshard_search::{Choose, Limits};
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let (product, limits) = (Schedule::from_spec(example::matmul(1024, 1024, 1024)), Limits { memory: Some(8 << 20), ..Limits::default() });
/// let choice = product.auto(4, &machine).limits(limits).find()?;
/// assert!(choice.cost().memory <= 8 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The bytes that a rank may hold, in place of what the machine's devices have.
    pub memory: Option<u64>,
    /// After so long the search ends, once there is a schedule.
    pub at_most: Option<Duration>,
}
