//! The one way to print: `print!` ends the program with a panic where standard output takes nothing.

use crate::error::{CliError, Result};
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

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

/// Writes a line to standard error, for people; nothing happens if it cannot be written.
pub(crate) fn remark(line: &impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
