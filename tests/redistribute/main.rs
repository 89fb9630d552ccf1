//! `polyshard redistribute`, as a user runs it: what it plans, runs and draws, and what it refuses.

#[path = "../support/command_line.rs"]
mod command_line;
mod pictures;
mod plans;
mod refusals;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "examples and processes are not started here")]
mod support;

use support::{Ended, Start};

/// Runs the subcommand with these arguments.
fn redistribute(arguments: &[&str]) -> Ended {
    command_line::polyshard(Start::Plain, &[&["redistribute"], arguments].concat())
}

/// Runs the subcommand and returns what it printed.
#[track_caller]
fn said(arguments: &[&str]) -> String {
    command_line::said(Start::Plain, &[&["redistribute"], arguments].concat())
}

/// Checks that the subcommand refuses these arguments with this message and nothing else.
#[track_caller]
fn refused(arguments: &[&str], message: &str) {
    command_line::refused(&[&["redistribute"], arguments].concat(), message);
}
