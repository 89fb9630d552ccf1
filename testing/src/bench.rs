//! Shared parts of the benchmarks: a command line, a clock of all ranks, and lines of measurements with their readers.

pub mod clock;
mod part;
pub mod peak;
#[cfg(feature = "polyshard")]
pub mod products;
pub mod record;
pub mod tabulate;

pub use part::part;
