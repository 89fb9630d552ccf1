//! The peak memory of a rank, against its shards and what its program states.

use crate::Problem;
use crate::product::{case, operands};
use polyshard::Element;
use polyshard::prelude::*;
use polyshard_testing::bench::peak::{of_all_ranks, peak};
use polyshard_testing::bench::products::schedule;
use polyshard_testing::bench::record::Record;

/// Runs the first algorithm once, and prints the bytes of the rank that had most: in all, before there were any
/// arrays, and as the program states them.
///
/// On threads all ranks share one process, so it says something on MPI only.
pub(crate) fn measure<T: Element>(problem: &Problem) -> polyshard::Result<()> {
    let algorithm = problem.algorithms[0];
    let program = schedule::<T>(algorithm, &problem.grid, problem.size).lower()?;
    polyshard::spmd(problem.grid.size(), |world| {
        world.comm().barrier()?;
        let before = peak();
        let [a, b] = operands::<T>(world, &program, algorithm)?;
        program.run(world, &[&a, &b])?;
        let [peaks, befores] = of_all_ranks(world, [peak(), before])?;
        let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
        if world.rank() == 0 {
            let report = program.report();
            let quantities = [
                ("peak", most(&peaks)),
                ("before", most(&befores)),
                ("shards", report.shard_bytes),
                ("tiles", report.tile_bytes),
            ];
            for (quantity, value) in quantities {
                let (case, contestant, value) = (case(world, problem), algorithm.to_string(), value as f64);
                println!("{}", Record { quantity: quantity.into(), case, contestant, value });
            }
        }
        Ok(())
    })?;
    Ok(())
}
