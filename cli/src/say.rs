//! The one way to print: `print!` ends the program with a panic where standard output takes nothing.

use crate::error::{CliError, Result};
use polyshard::runtime::launched_rank;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Duration;

/// Writes text to standard output, at once.
///
/// If the reader closed the pipe, as `head` does, that is no failure; the rest is not printed.
///
/// # Errors
/// If standard output cannot be written, as where it is a file and the disk is full.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CliError::Stdout),
    }
}

/// Says on standard error why the program ends; if that cannot be written either, the exit code has to do.
pub(crate) fn complain(message: &impl Display) {
    remark(&format_args!("error: {message}"));
}

/// How long a process that a launcher has started waits for the first one to say what is wrong: launchers end all when one has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// Whether this process is to say what all processes that a launcher has started have found, before it ends.
///
/// Most mistakes are those of all of them, and the first one speaks. If it is not there to do so after a while, as where a file
/// is missing on one node alone, the others say what they have `failed` at. MPI need not be initialised for that.
pub(crate) fn is_speaker(failed: bool) -> bool {
    if launched_rank().is_none_or(|rank| rank == 0) {
        return true;
    }
    if failed {
        thread::sleep(PATIENCE);
    }
    failed
}

/// Writes a line to standard error, for people; nothing happens if it cannot be written.
pub(crate) fn remark(line: &impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
