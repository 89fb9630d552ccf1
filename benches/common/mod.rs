//! What the benchmarks share: a command line, a clock of all ranks, a form of line for what was measured, and ways to read it.

#[allow(dead_code, reason = "a benchmark needs the extents of a mesh alone")]
#[path = "../../src/bin/polyshard/axes.rs"]
pub(crate) mod axes;
pub(crate) mod cli;
pub(crate) mod clock;
pub(crate) mod peak;
pub(crate) mod record;
pub(crate) mod tabulate;
