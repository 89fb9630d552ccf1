//! Runs random programs on all ranks that `mpirun` started, or on 4 threads without it, each twice in place and twice
//! by messages, and compares the results with the sequential one.
//!
//! ```text
//! mpirun -n 6 target/debug/examples/program_laws --ranks=6
//! ```
//!
//! Schedules are drawn from a fixed sequence, so all ranks and all runs see the same ones.

use ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard::prelude::*;
use polyshard::runtime::{Transport, spmd};
use polyshard::{Error, Result, leaf};
use polyshard_testing::laws;
use polyshard_testing::laws::large::large;
use polyshard_testing::laws::product::Draw;
use polyshard_testing::laws::program::{run_every_way, sequential, versions_hold};
use polyshard_testing::program::ByExchange;
use polyshard_testing::random::Choices;
use polyshard_testing::random::algorithms::algorithm_of;
use polyshard_testing::random::by_procedures::by_procedure;
use polyshard_testing::random::cyclic::cyclic_of;
use polyshard_testing::random::kernels::kernel_of;
use polyshard_testing::random::pipelined::pipelined;
use polyshard_testing::random::schedules::{mesh_of, schedule_of};
use polyshard_testing::random::staged::staged;
use polyshard_testing::random::sums::summed_of;
use std::cell::Cell;

/// The number of programs of each kind to run.
const PROGRAMS: usize = 12;

/// The maximum number of schedules to draw of each kind: most have a mesh of another size.
const DRAWS: usize = 4000;

fn main() -> Result<()> {
    let ranks = laws::ranks();
    if std::env::args().any(|argument| argument == "--fail") {
        return fail_midway(ranks);
    }
    spmd(ranks, |world| {
        let mut draw = Draw(23);
        let programs = hold::<i64>(world, &mut draw, 0)?
            + hold::<f32>(world, &mut draw, 1)?
            + hold::<f64>(world, &mut draw, 2)?
            + hold::<i32>(world, &mut draw, 3)?
            + large_hold::<f64>(world)?
            + large_hold::<i32>(world)?;
        if world.is_root() {
            println!("{programs} programs give the sequential result on {ranks} ranks");
        }
        Ok::<(), Error>(())
    })
    .map(drop)
}

thread_local! {
    /// How many leaves this rank computes before it panics, if it is to panic.
    static LEAVES: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Makes rank 1 panic in the middle of a program with panels in flight, which must end all ranks.
fn fail_midway(ranks: usize) -> Result<()> {
    vars!(m, n, k, mo, mi, ko, ki);
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    let product = kernel! {
        fn product(A: [f64; 8, 48], B: [f64; 48, 8]) -> C: [f64; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    };
    let kernel = product.kernel()?.clone();
    leaf::register("fails_midway", &kernel, |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 2]| {
        LEAVES.with(|left| {
            let Some(leaves) = left.get() else { return };
            assert!(leaves > 0, "the leaf has had enough");
            left.set(Some(leaves - 1));
        });
    })?;
    let panels = product.distribute([m], [mo], [mi], &mesh).divide(k, ko, ki, 6).reorder([mo, ko, mi, n, ki]);
    let panels = panels.shard("B", [k.at(x)]).communicate("B", ko).pipeline(ko, 2);
    let program = panels.tensorize_with([mi, n, ki], "fails_midway").lower()?;
    spmd(ranks, |world| {
        LEAVES.set((world.rank() == 1).then_some(3));
        let [a, b] = ["A", "B"].map(|name| DistArray::filled(world, program.sharding(name), 1.0f64));
        let mut prepared = program.prepare(world)?.with_transport(Transport::Messages);
        prepared.run(&[&a?, &b?])?;
        Ok::<(), Error>(())
    })
    .map(drop)
}

/// Checks programs of one kind; returns their number, which is lower if meshes of this kind seldom match the size of
/// the world.
fn hold<T: Element>(world: &World, draw: &mut Draw, kind: usize) -> Result<usize> {
    let mut programs = 0;
    for _ in 0..DRAWS {
        if programs == PROGRAMS {
            break;
        }
        let choices: Vec<u32> = (0..60).map(|_| draw.below(5040) as u32).collect();
        let Some(schedule) = schedule::<T>(world.size(), kind, &choices) else { continue };
        let Some(program) = schedule.lower().ok().filter(|program| program.mesh().size() == world.size()) else {
            continue;
        };
        programs += 1;
        versions_hold::<T>(world, &program)?;
        let ahead = pipelined(&schedule, 1 + programs % 3)?;
        let in_stages = staged(&program, &mut Choices::new(&choices));
        let by_procedure = by_procedure(&program, &mut Choices::new(&choices));
        for program in
            [program.clone(), program.by_exchange()].into_iter().chain(ahead).chain(in_stages).chain(by_procedure)
        {
            let (_, found) = run_every_way::<T>(world, &program, true)?;
            if let Some(found) = found {
                assert_eq!(found, sequential::<T>(&program, true), "{schedule}\n{program}");
            }
        }
    }
    Ok(programs)
}

/// Checks the programs with long blocks; returns their number.
fn large_hold<T: Element>(world: &World) -> Result<usize> {
    let schedules = large::<T>(world.size());
    for (name, schedule) in &schedules {
        let program = schedule.lower()?;
        let (_, found) = run_every_way::<T>(world, &program, false)?;
        if let Some(found) = found {
            assert!(found == sequential::<T>(&program, false), "{name} differs from the sequential result\n{program}");
        }
    }
    Ok(schedules.len())
}

/// The schedule of this kind that these choices give, if it is for this many ranks.
fn schedule<T: Element>(ranks: usize, kind: usize, choices: &[u32]) -> Option<Schedule> {
    let mut choices = Choices::new(choices);
    if kind > 1 {
        let schedule = if kind == 2 { algorithm_of::<T>(&mut choices).0 } else { summed_of::<T>(&mut choices) };
        return schedule.mesh().is_ok_and(|mesh| mesh.size() == ranks).then_some(schedule);
    }
    let kernel = kernel_of::<T>(&mut choices);
    let mesh = mesh_of(&mut choices);
    if mesh.size() != ranks {
        return None;
    }
    Some(if kind == 0 { schedule_of(kernel, &mesh, &mut choices) } else { cyclic_of(kernel, &mesh, &mut choices) })
}
