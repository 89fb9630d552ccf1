//! All ways, timed in turns.

use crate::problem::Problem;
use crate::ways::{Plan, Way};
use polyshard::prelude::*;
use polyshard::runtime::{Redistribution, Sweep, Transport};
use polyshard_testing::bench::record::Record;

/// Times our two ways, the way over the whole matrix and the copy of a tile `runs` times, in turns.
pub(crate) fn matrix(problem: &Problem, runs: usize) -> polyshard::Result<()> {
    polyshard::spmd(problem.source.mesh().size(), |world| {
        let plan = |transport| {
            let plan = Redistribution::new(world, &problem.source, &problem.target)?;
            Ok::<_, polyshard::Error>(Plan::Own(Box::new(plan.with_transport(transport))))
        };
        let ways = vec![
            Way::copy(world, problem)?,
            Way::plan(world, problem, "messages", plan(Transport::Messages)?, false)?,
            Way::plan(world, problem, "shared", plan(Transport::Shared)?, true)?,
            Way::gather(world, problem)?,
        ];
        in_turns(world, problem, ways, runs)
    })?;
    Ok(())
}

/// Times the move of a sweep over slabs by our two ways, and the copy of a slab, `runs` times, in turns.
pub(crate) fn sweep(problem: &Problem, runs: usize) -> polyshard::Result<()> {
    let shape = problem.source.shape();
    let mesh = problem.source.mesh();
    polyshard::spmd(mesh.size(), |world| {
        let slabs = Mesh::new([("x", mesh.size())]);
        let plan = |transport| {
            let sweep = Sweep::new(world, &slabs, shape, 3)?.with_transport(transport);
            Ok::<_, polyshard::Error>(Plan::First(sweep))
        };
        let ways = vec![
            Way::copy(world, problem)?,
            Way::plan(world, problem, "messages", plan(Transport::Messages)?, false)?,
            Way::plan(world, problem, "shared", plan(Transport::Shared)?, true)?,
        ];
        in_turns(world, problem, ways, runs)
    })?;
    Ok(())
}

/// Runs each way once to warm it and to check it, then `runs` times in turns, and prints on rank 0 the seconds of
/// each run.
fn in_turns(world: &World, problem: &Problem, mut ways: Vec<Way>, runs: usize) -> polyshard::Result<()> {
    for way in &mut ways {
        way.turn(world)?;
        way.check(world, problem)?;
    }
    for _ in 0..runs {
        for way in &mut ways {
            let value = way.turn(world)?;
            if world.rank() == 0 {
                let (case, contestant) = (problem.case(world), way.name.to_owned());
                println!("{}", Record { quantity: "seconds".into(), case, contestant, value });
            }
        }
    }
    Ok(())
}
