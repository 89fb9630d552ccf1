//! The peak memory of a rank, against its shards and what its program states.

use crate::Problem;
use crate::product::{case, operands};
use crate::record::Record;
use crate::schedules::schedule;
use polyshard::Element;
use polyshard::prelude::*;
use std::fs;

/// Runs the first algorithm once, and prints the bytes of the rank that had most: in all, before there were any
/// arrays, and as the program states them.
///
/// On threads all ranks share one process, so it says something on MPI only.
pub(crate) fn measure<T: Element>(problem: &Problem) -> polyshard::Result<()> {
    let algorithm = problem.algorithms[0];
    let program = schedule::<T>(algorithm, problem.grid, problem.size).lower()?;
    polyshard::spmd(problem.grid.size(), |world| {
        world.comm().barrier()?;
        let before = peak();
        let [a, b] = operands::<T>(world, &program, algorithm)?;
        program.run(world, &[&a, &b])?;
        let numbers = [peak(), before].map(u64::to_ne_bytes).concat();
        let mut all = vec![0; numbers.len() * world.size()];
        world.comm().all_gather(&numbers, &mut all, &vec![numbers.len(); world.size()])?;
        let numbers: Vec<u64> =
            all.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"))).collect();
        let most = |which: usize| numbers.iter().skip(which).step_by(2).copied().max().unwrap_or(0);
        if world.rank() == 0 {
            let report = program.report();
            let quantities =
                [("peak", most(0)), ("before", most(1)), ("shards", report.shard_bytes), ("tiles", report.tile_bytes)];
            for (quantity, value) in quantities {
                let (case, contestant, value) = (case(world, problem), algorithm.to_string(), value as f64);
                println!("{}", Record { quantity: quantity.into(), case, contestant, value });
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// The most bytes of memory that this process has ever had.
///
/// # Panics
/// If the system does not say, as only Linux does.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux says what a process has");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says the peak");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kilobytes * 1024
}
