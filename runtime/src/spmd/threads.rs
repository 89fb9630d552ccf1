//! The maximum number of ranks that can be threads of one process.
//!
//! With too many threads, the system fails late, and not always with an error: a thread that gets no guard page for its
//! stack ends the process. So they are counted before the first one is started.

use crate::{LaunchError, Result};
use std::fs;

/// The maximum number of threads, if the system allows them: each takes several of the 65530 mappings that Linux gives
/// a process.
const MAX_RANKS: usize = 4096;

/// Checks that `ranks` ranks can be threads of this process.
///
/// # Errors
/// If they are too many, with the maximum number.
pub(super) fn check(ranks: usize) -> Result<()> {
    let (max, limit) = limit(fs::read_to_string("/proc/self/limits").ok(), control_group());
    if ranks <= max { Ok(()) } else { Err(LaunchError::TooManyThreads { ranks, max, limit }.into()) }
}

/// Returns the maximum number of threads, and the limit that determines it.
fn limit(limits: Option<String>, group: Option<String>) -> (usize, &'static str) {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    // The soft limit is the first number of its line; `unlimited` is not a number.
    let line = limits.as_ref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Max processes")));
    let user = line.and_then(|line| number(line.split_whitespace().next()?));
    let group = group.as_deref().and_then(number);
    let known = [
        (Some(MAX_RANKS), "the limit of polyshard"),
        (user, "the limit of the user's processes, `ulimit -u`"),
        (group, "the limit of the control group, `pids.max`"),
    ];
    let known = known.into_iter().filter_map(|(most, why)| Some((most?, why)));
    known.min_by_key(|known| known.0).unwrap_or((MAX_RANKS, "the limit of polyshard"))
}

/// Returns the thread limit of the process' control group, in version 2 of control groups.
fn control_group() -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    fs::read_to_string(format!("/sys/fs/cgroup/{group}/pids.max")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts() {
        let limits = |soft: &str| {
            let head = "Limit                     Soft Limit           Hard Limit           Units\n";
            Some(format!("{head}Max cpu time unlimited unlimited\nMax processes   {soft}   96529   processes\n"))
        };
        assert_eq!(limit(None, None), (MAX_RANKS, "the limit of polyshard"));
        assert_eq!(limit(limits("96529"), Some("max\n".into())), (MAX_RANKS, "the limit of polyshard"));
        assert_eq!(limit(limits("unlimited"), Some("100\n".into())).0, 100);
        assert_eq!(limit(limits("64"), Some("100\n".into())).0, 64);
    }

    #[test]
    fn too_many_ranks_are_refused_before_one_is_started() {
        let error = crate::spmd(40_000, |_| -> Result<()> { panic!("no rank should start") }).unwrap_err().to_string();
        let start = "40000 ranks cannot be threads of one process, which has at most ";
        assert!(error.starts_with(start) && error.ends_with("or processes, `mpirun -n 40000`"), "{error}");
    }
}
