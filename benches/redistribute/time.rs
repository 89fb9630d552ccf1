//! All ways, timed in turns.

use crate::problem::Problem;
use crate::ways::Way;
use polyshard::prelude::*;
use polyshard::runtime::{Redistribution, Transport};
use polyshard_testing::bench::record::Record;

/// Times our two ways, the copy of a tile, and gathering a whole matrix, `runs` times in turns.
pub(crate) fn ways(problem: &Problem, runs: usize) -> polyshard::Result<()> {
    polyshard::spmd(problem.source.mesh().size(), |world| {
        let plan = |transport| {
            let plan = Redistribution::new(world, &problem.source, &problem.target)?;
            Ok::<_, polyshard::Error>(plan.with_transport(transport))
        };
        let mut ways = vec![
            Way::copy(world, problem)?,
            Way::plan(world, problem, "messages", plan(Transport::Messages)?, false)?,
            Way::plan(world, problem, "shared", plan(Transport::Shared)?, true)?,
        ];
        if problem.source.shape().len() == 2 {
            ways.push(Way::gather(world, problem)?);
        }
        in_turns(world, problem, ways, runs)
    })?;
    Ok(())
}

/// Runs each way once to warm it up and to check it, then `runs` times in turns, and prints the seconds of each run on
/// rank 0.
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
