//! What the benchmarks share: a command line, a clock of all ranks, a form of line for what was measured, and ways to read it.

pub(crate) mod cli;
pub(crate) mod clock;
pub(crate) mod peak;
pub(crate) mod record;
pub(crate) mod tabulate;
