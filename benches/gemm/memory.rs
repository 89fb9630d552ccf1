//! The peak memory of a rank, compared with its shards and the program's figure.

use crate::Problem;
use crate::product::{case, operands};
use polyshard::prelude::*;
use polyshard::runtime::Transport;
use polyshard_testing::bench::peak::{held, of_all_ranks, peak};
use polyshard_testing::bench::products::schedule;
use polyshard_testing::bench::record::Record;

/// Runs the first algorithm twice, and prints the bytes of the rank with the most: in total, before any arrays existed,
/// and its shards and tiles by the program's figures.
///
/// With messages, the peak is printed. In place, a node has no tiles, and a rank touches the shards of others, so its
/// share is printed, see [`held`]. On threads all ranks share one process, so the figures are meaningful with MPI only.
pub(crate) fn measure<T: Element>(problem: &Problem, transport: Transport) -> polyshard::Result<()> {
    let algorithm = problem.algorithms[0];
    let program = schedule::<T>(algorithm, &problem.grid, problem.size).lower()?;
    polyshard::spmd(problem.grid.size(), |world| {
        world.comm().barrier()?;
        let before = peak();
        let [a, b] = operands::<T>(world, &program, algorithm)?;
        let mut c = DistArray::filled(world, program.sharding("C"), T::ZERO)?;
        let mut prepared = program.prepare(world)?.with_transport(transport);
        for _ in 0..2 {
            prepared.run_into(&[&a, &b], &mut c)?;
        }
        world.comm().barrier()?;
        let numbers = of_all_ranks(world, [held(transport), before])?;
        let [has, before] = numbers.map(|values| values.into_iter().max().unwrap_or(0));
        if world.rank() == 0 {
            let report = program.report();
            let (name, tiles) = match transport {
                Transport::Messages => (format!("{algorithm}:messages"), report.tile_bytes),
                Transport::Auto | Transport::Shared => (algorithm.to_string(), 0),
            };
            let quantities = [("has", has), ("before", before), ("shards", report.shard_bytes), ("tiles", tiles)];
            for (quantity, value) in quantities {
                let (case, contestant, value) = (case(world, problem), name.clone(), value as f64);
                println!("{}", Record { quantity: quantity.into(), case, contestant, value });
            }
        }
        Ok(())
    })?;
    Ok(())
}
