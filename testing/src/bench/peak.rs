//! The peak memory of a rank.

use polyshard_runtime::{Result, Transport, World};
use std::fs;

/// The peak memory of this process, in bytes.
///
/// # Panics
/// If the system does not report it; only Linux does.
pub fn peak() -> u64 {
    kilobytes("/proc/self/status", "VmHWM:") * 1024
}

/// Resets the peak: [`peak`] then covers the time after this call.
///
/// # Panics
/// If the system cannot reset it; only Linux can.
pub fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("Linux forgets the peak of a process");
}

/// The peak memory of this process in bytes, or where ranks map each other's memory, its share of the memory in use
/// now.
///
/// Shared memory counts for every rank that touches it, so the peak exceeds a rank's own memory. A page mapped by several
/// ranks counts as an equal share for each.
///
/// # Panics
/// If the system does not report it; only Linux does.
pub fn held(transport: Transport) -> u64 {
    match transport {
        Transport::Messages => peak(),
        Transport::Auto | Transport::Shared => kilobytes("/proc/self/smaps_rollup", "Pss:") * 1024,
    }
}

/// Returns, for each of this rank's numbers, all ranks' in rank order.
pub fn of_all_ranks<const N: usize>(world: &World, numbers: [u64; N]) -> Result<[Vec<u64>; N]> {
    let mine = numbers.map(u64::to_ne_bytes).concat();
    let mut all = vec![0; mine.len() * world.size()];
    world.comm().all_gather(&mine, &mut all, &vec![mine.len(); world.size()])?;
    let all: Vec<u64> =
        all.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"))).collect();
    Ok(std::array::from_fn(|which| all.iter().skip(which).step_by(N).copied().collect()))
}

/// The number of kB on the line of a file that begins with `name`.
///
/// # Panics
/// If the system has no such file or line.
pub fn kilobytes(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).expect("Linux says what a process has");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("`{file}` has no line `{name}`"));
    line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
}
