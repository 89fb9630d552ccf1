//! Elapsed time over all ranks.

use polyshard_runtime::{Result, World};
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs `f` on all ranks after a barrier, and returns the seconds from the first rank's start to the last
/// rank's end, the same on all ranks.
///
/// Each rank's own time would be wrong: where ranks share a core, one may finish before another starts, and both would
/// look fast. The ranks read one clock, so they must be on one machine.
pub fn together(world: &World, f: impl FnOnce() -> Result<()>) -> Result<f64> {
    world.comm().barrier()?;
    let start = now();
    f()?;
    let mine = [start.to_ne_bytes(), now().to_ne_bytes()].concat();
    let mut all = vec![0; mine.len() * world.size()];
    world.comm().all_gather(&mine, &mut all, &vec![mine.len(); world.size()])?;
    let times: Vec<f64> = all
        .chunks_exact(size_of::<f64>())
        .map(|bytes| f64::from_ne_bytes(bytes.try_into().expect("chunks are of this size")))
        .collect();
    let first = times.iter().step_by(2).copied().fold(f64::INFINITY, f64::min);
    let last = times.iter().skip(1).step_by(2).copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(last - first)
}

/// Seconds since 1970, to a quarter of a microsecond.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_secs_f64()
}
