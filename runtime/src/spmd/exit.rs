//! Ending a program before it runs, which may be many processes: the message is printed once.

use super::{IS_RANK, launched_ranks, spmd};
use crate::World;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Ends the program and prints this text once, on standard output if the code is 0 and on standard error otherwise.
///
/// Under an MPI launcher every process runs all of `main`, and finds the same mistake in its arguments or its schedule. All of them call
/// this; they first join their world, so that one can print for all. MPI's exit code is then 0 or 1. A reader that has closed the pipe is
/// not a failure. Failures inside of [`spmd`](crate::spmd()) are printed once in any case.
///
/// ```no_run
/// fn ranks() -> Result<usize, std::num::ParseIntError> {
///     std::env::args().nth(1).map_or(Ok(4), |argument| argument.parse())
/// }
///
/// let ranks = ranks().unwrap_or_else(|error| polyshard::runtime::exit(2, format_args!("error: {error}")));
/// ```
pub fn exit(code: i32, text: impl Display) -> ! {
    let text = text.to_string();
    let text = text.trim_end();
    let said = match launched_ranks().filter(|_| !IS_RANK.get()) {
        None => print(code, text),
        Some(ranks) => spmd(ranks, |world: &World| match code {
            0 if world.is_root() => print(0, text),
            0 => Ok(()),
            _ => Err(text.trim_start_matches("error: ").into()),
        })
        .map(drop),
    };
    let code = said.map_or_else(|error| print(1, &format!("error: {error}")).map_or(1, |()| 1), |()| code);
    process::exit(code)
}

/// Prints a line immediately. If standard error cannot be written, only the exit code reports the failure.
fn print(code: i32, text: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let line = format!("{text}\n");
    if code != 0 {
        let _ = io::stderr().write_all(line.as_bytes());
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {why}").into())
        }
        _ => Ok(()),
    }
}
