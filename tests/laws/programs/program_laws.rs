//! Runs random programs on all ranks that `mpirun` started, or on 4 threads without it, and compares each with the
//! sequential result.
//!
//! ```text
//! mpirun -n 6 target/debug/examples/program_laws --ranks=6
//! ```
//!
//! Kernels, sizes and schedules are drawn from a fixed sequence, so all ranks and all runs see the same ones. Those on
//! a mesh of another size and those that are refused are passed over.

#[path = "../../random/programs.rs"]
mod programs;
#[path = "../../random/mod.rs"]
mod random;

use polyshard::runtime::spmd;
use polyshard::{Element, Error, Result, Schedule, World};
use polyshard_testing::laws::product::Draw;
use programs::{algorithm, anything, cyclic, distributed_on, sequential, summed};

/// Programs that run, of each kind.
const PROGRAMS: usize = 12;

fn main() -> Result<()> {
    let argument = std::env::args().nth(1);
    let ranks = match argument.as_ref().and_then(|argument| argument.strip_prefix("--ranks=")) {
        Some(ranks) => ranks.parse().unwrap_or_else(|_| panic!("`{ranks}` is not a number of ranks")),
        None => 4,
    };
    spmd(ranks, |world| {
        let mut draw = Draw(17);
        let programs = hold::<i64>(world, &mut draw, anything::<i64>)?
            + hold::<f64>(world, &mut draw, algorithm::<f64>)?
            + hold::<i32>(world, &mut draw, summed::<i32>)?
            + hold::<f32>(world, &mut draw, cyclic::<f32>)?;
        if world.rank() == 0 {
            println!("{programs} programs give the sequential result on {} ranks", world.size());
        }
        Ok::<(), Error>(())
    })
    .map(drop)
}

/// Runs programs of one kind, and returns how many: none if no mesh of the kind has as many ranks as the world.
fn hold<T: Element>(world: &World, draw: &mut Draw, schedule_of: fn(&[u32]) -> Schedule) -> Result<usize> {
    let mut programs = 0;
    for _ in 0..200 * PROGRAMS {
        if programs == PROGRAMS {
            break;
        }
        let choices: Vec<u32> = (0..draw.below(90)).map(|_| draw.below(5040) as u32).collect();
        let schedule = schedule_of(&choices);
        if schedule.mesh().map_or(0, |mesh| mesh.size()) != world.size() {
            continue;
        }
        let Ok(program) = schedule.lower() else { continue };
        let expected = sequential::<T>(&program)?;
        for (program, how) in [(program.clone(), "as derived"), (program.by_exchange(), "by exchange alone")] {
            if let Some(found) = distributed_on::<T>(world, &program)? {
                assert!(found == expected, "{how}: {found} is not {expected}\n{schedule}\n{program}");
            }
        }
        programs += 1;
    }
    Ok(programs)
}
