//! Running the example binaries of this package, with `mpirun` and without, and reading what they say.

#[path = "../../../tests/support/mod.rs"]
#[allow(dead_code, reason = "these tests write no files, and some of them start no program by itself")]
mod support;

use std::time::Duration;
use support::Start;
pub(crate) use support::{Ended, example};

/// Runs an example of this package to its end: on `processes` MPI processes, or by itself.
///
/// # Panics
/// If it cannot be built or started, or runs longer than `limit`; it is ended then.
pub(crate) fn run(name: &str, arguments: &[&str], processes: Option<usize>, limit: Duration) -> Ended {
    support::run(processes.map_or(Start::Plain, Start::Mpi), &example(name), arguments, limit)
}
