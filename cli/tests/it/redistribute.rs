//! `polyshard redistribute`, as a user runs it: plans, runs, pictures, and errors.

mod pictures;
mod plans;
mod refusals;

use polyshard_testing::command_line::CommandLine;
use polyshard_testing::start::{Ended, Start};

/// The command line.
const COMMAND_LINE: CommandLine = CommandLine::new(env!("CARGO_BIN_EXE_polyshard"), env!("CARGO_TARGET_TMPDIR"));

/// Runs the subcommand with these arguments.
fn redistribute(arguments: &[&str]) -> Ended {
    COMMAND_LINE.run(Start::Plain, &[&["redistribute"], arguments].concat())
}

/// Runs the subcommand and returns its output.
#[track_caller]
fn said(arguments: &[&str]) -> String {
    COMMAND_LINE.said(Start::Plain, &[&["redistribute"], arguments].concat())
}
