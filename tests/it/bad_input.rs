//! Bad input: the message, that it is printed once, and that all ranks end soon with an error code.

mod files;
mod flags;
#[cfg(target_os = "linux")]
mod outputs;
mod ranks;
pub(crate) mod schedules;

use polyshard_testing::example_path;
use polyshard_testing::start::{Ended, Start, run};
use std::path::Path;
use std::time::Duration;

/// Time limit for all ranks to end. Starting processes takes part of it on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Checks that a program fails soon, and prints this message once.
#[track_caller]
fn refused(start: Start, program: &Path, arguments: &[&str], message: &str) {
    let Ended { success, stdout, stderr, .. } = run(start, program, arguments, SOON);
    let line = format!("{} {} on {start:?}", program.display(), arguments.join(" "));
    assert!(!success, "`{line}` ended with code 0:\n{stdout}\n{stderr}");
    assert_eq!(stderr.matches(message).count(), 1, "`{line}` should say `{message}` once:\n{stderr}");
}

/// Checks that an example, given with its arguments, is refused on threads and under `mpirun`.
#[track_caller]
fn refused_everywhere(line: &str, message: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let program = example_path!(words[0]);
    refused(Start::Plain, &program, &words[1..], message);
    #[cfg(feature = "mpi")]
    refused(Start::Mpi(3), &program, &words[1..], message);
}
