//! Preconditions of `--run`: ranks that are threads of this process, and memory for all of them.
//!
//! `--run` is a check, not a computation, so it is limited to small problems.

use crate::error::{CliError, Result};
use polyshard::machine::units::counted;
use polyshard::runtime::free_memory;
use serde::Serialize;
use std::fmt::{self, Display};

/// Checks that ranks can be threads; `owner` names their owner in the message.
pub(crate) fn check_ranks(owner: &str, ranks: usize, most: usize) -> Result<()> {
    if ranks > most {
        let ranks = counted(ranks, "rank");
        let what = format!("`--run` starts a thread per rank, at most {most}, but {owner} has {ranks}");
        return Err(CliError::refused(what, "run a smaller one"));
    }
    if polyshard::runtime::launched_ranks().is_some_and(|started| started > 1) {
        return Err(CliError::refused("`--run` starts its own ranks, as threads", "run it without an MPI launcher"));
    }
    Ok(())
}

/// Checks that `needed` bytes of `what` fit into free memory, if the system reports it.
pub(crate) fn check_memory(what: &str, needed: u128) -> Result<()> {
    match free_memory() {
        Some(free) if needed > free.into() => {
            let what = format!("`--run` holds {what}, up to {needed} bytes, but {free} bytes are free");
            Err(CliError::refused(what, "run a smaller array"))
        }
        _ => Ok(()),
    }
}

/// Returns the first element that is not as expected, as text.
pub(crate) fn wrong<T: PartialEq + Display>(found: &[T], expected: &[T]) -> Option<String> {
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
    Some(format!("{} is at {at}, not {}", found[at], expected[at]))
}

/// The outcome of a run without errors.
#[derive(Serialize)]
pub(crate) struct Trial {
    /// Number of tiles compared.
    pub(crate) tiles: usize,
    /// Bytes received by each rank.
    pub(crate) received_bytes: Vec<u64>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = range(&self.received_bytes);
        write!(f, "received per rank: {bytes}, {} in all", self.received_bytes.iter().sum::<u64>())
    }
}

/// Returns the smallest and the largest of some numbers of bytes, as text.
pub(crate) fn range(bytes: &[u64]) -> String {
    let (min, max) = (bytes.iter().min().copied().unwrap_or(0), bytes.iter().max().copied().unwrap_or(0));
    if min == max { counted(max, "byte") } else { format!("{min} to {max} bytes") }
}
