//! What the benchmarks share: a command line, a clock of all ranks, a form of line for what was measured, and ways to read it.

pub mod clock;
mod part;
pub mod peak;
#[cfg(feature = "polyshard")]
pub mod products;
pub mod record;
pub mod tabulate;

pub use part::part;
