//! What `--run` needs: ranks that are threads of this process, and memory for all that they hold.
//!
//! A run on the command line is a check, not a computation: it stays small, and says so before it begins.

use std::fs;

/// Checks that ranks can be threads; `of` says in words what has that many.
///
/// # Errors
/// If there are more than `most`, or an MPI launcher has made ranks already.
pub(crate) fn check_ranks(of: &str, ranks: usize, most: usize) -> Result<(), String> {
    if ranks > most {
        return Err(format!(
            "`--run` starts a thread per rank, {most} at most, but {of} has {ranks}; run a smaller one"
        ));
    }
    if polyshard::runtime::launched_ranks().is_some() {
        return Err("`--run` makes its ranks itself; start it without an MPI launcher".into());
    }
    Ok(())
}

/// Checks that so many bytes of `what` fit into the memory that is free, as far as the system tells.
///
/// # Errors
/// If they do not.
pub(crate) fn check_memory(what: &str, needed: u128) -> Result<(), String> {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free =
        info.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok());
    match free.map(|kib: u128| kib * 1024) {
        Some(free) if needed > free => {
            Err(format!("`--run` holds {what}, up to {needed} bytes, but {free} are free; run a smaller array"))
        }
        _ => Ok(()),
    }
}
