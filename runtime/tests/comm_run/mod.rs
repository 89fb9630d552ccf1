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
#[allow(dead_code, reason = "some of the tests that share this file set variables")]
pub(crate) fn run(name: &str, arguments: &[&str], processes: Option<usize>, limit: Duration) -> Ended {
    support::run(processes.map_or(Start::Plain, Start::Mpi), &example(name), arguments, limit)
}

/// As [`run`], with variables set in the environment, each as `NAME=value`.
///
/// # Panics
/// As [`run`].
#[allow(dead_code, reason = "some of the tests that share this file set none")]
pub(crate) fn run_with(
    variables: &[&str],
    name: &str,
    arguments: &[&str],
    processes: Option<usize>,
    limit: Duration,
) -> Ended {
    let program = example(name);
    let program = program.to_str().expect("paths of tests are text");
    let arguments = [variables, &[program], arguments].concat();
    // `env` sets them for its program alone, where a test's own variables would be those of all tests.
    support::run(processes.map_or(Start::Plain, Start::Mpi), std::path::Path::new("env"), &arguments, limit)
}
