//! Printing. Unlike `print!`, it does not panic if standard output cannot be written.

use crate::error::{CliError, Result};
use polyshard::runtime::launched_rank;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Duration;

/// Writes text to standard output and flushes it.
///
/// A pipe that its reader has closed, as `head` does, is not an error; the rest is dropped.
///
/// # Errors
/// If standard output cannot be written, for example because the disk is full.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CliError::Stdout),
    }
}

/// Prints an error on standard error; if that fails too, the exit code has to do.
pub(crate) fn complain(message: &impl Display) {
    remark(&format_args!("error: {message}"));
}

/// How long a process under an MPI launcher waits for the first one to print an error: launchers end all processes when one fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// Whether this is the first process of an MPI launcher, or started without one. MPI need not be initialised.
pub(crate) fn is_first() -> bool {
    launched_rank().is_none_or(|rank| rank == 0)
}

/// Whether this process prints the outcome, an error if it `failed`.
///
/// Under an MPI launcher most errors are common to all processes, and the first prints them. If this process still runs after
/// [`PATIENCE`], the first has not failed, for example because a file is missing on one node only, and this process prints its
/// error. MPI need not be initialised.
pub(crate) fn is_speaker(failed: bool) -> bool {
    if is_first() {
        return true;
    }
    if failed {
        thread::sleep(PATIENCE);
    }
    failed
}

/// Writes a line to standard error; a failure to do so is ignored.
pub(crate) fn remark(line: &impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
