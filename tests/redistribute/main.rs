//! `polyshard redistribute`, as a user runs it: what it plans, runs and draws, and what it refuses.

mod pictures;
mod plans;
mod refusals;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "examples and processes are not started here")]
mod support;

use std::path::Path;
use std::time::Duration;
use support::{Ended, Start, run};

const LIMIT: Duration = Duration::from_secs(60);

/// Runs the command line with these arguments.
fn redistribute(arguments: &[&str]) -> Ended {
    let arguments = [&["redistribute"], arguments].concat();
    run(Start::Plain, Path::new(env!("CARGO_BIN_EXE_polyshard")), &arguments, LIMIT)
}

/// Runs the command line and returns what it printed.
#[track_caller]
fn said(arguments: &[&str]) -> String {
    let Ended { success, stdout, stderr } = redistribute(arguments);
    assert!(success && stderr.is_empty(), "{arguments:?}:\n{stdout}\n{stderr}");
    stdout
}
