//! The memory of the ranks during a redistribution, compared with the plan's figure.

use crate::problem::Problem;
use polyshard::runtime::{Redistribution, Transport};
use polyshard_testing::bench::peak::{held, of_all_ranks, peak};
use polyshard_testing::bench::record::Record;

/// Redistributes twice, and prints the bytes of the rank with the most: at the peak, before any arrays existed, and by
/// the plan's figure.
///
/// For arrays in shared memory a rank's share is printed instead of its peak, see [`held`]. It is read while input,
/// output and staging all exist.
///
/// On threads all ranks share one process, so the figures are meaningful with MPI only.
pub(crate) fn measure(problem: &Problem, transport: Transport) -> polyshard::Result<()> {
    polyshard::spmd(problem.source.mesh().size(), |world| {
        world.comm().barrier()?;
        let before = peak();
        let plan = Redistribution::new(world, &problem.source, &problem.target)?.with_transport(transport);
        let source = problem.before(world)?;
        let mut target = plan.output(world)?;
        for _ in 0..2 {
            plan.run_into(world, &source, &mut target)?;
        }
        world.comm().barrier()?;
        let held = held(transport);
        let tiles = size_of_val(source.block()) + size_of_val(target.block());
        let staging = plan.staging_bytes(size_of::<f64>());
        let numbers = of_all_ranks(world, [held, before, tiles as u64, staging as u64])?;
        assert!(problem.arrived(world, &target)?, "rank {} does not have its part of the array", world.rank());
        if world.rank() == 0 {
            for (quantity, values) in ["peak", "before", "tiles", "staging"].into_iter().zip(numbers) {
                let contestant = if transport == Transport::Messages { "messages" } else { "shared" };
                let value = values.into_iter().max().unwrap_or(0) as f64;
                let (case, contestant) = (problem.case(world), contestant.into());
                println!("{}", Record { quantity: quantity.into(), case, contestant, value });
            }
        }
        Ok(())
    })?;
    Ok(())
}
