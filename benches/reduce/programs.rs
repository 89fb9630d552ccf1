//! All programs of one reduction, run on emulated nodes in turns, and simulated.
//!
//! The simulator adds up steps. Here a rank begins its next step as soon as it has finished the last, so steps that
//! load ports in opposite directions overlap: a reduce and then a broadcast between the same ranks, in several groups
//! at once, can take as little as half the simulated time. We do not hide that by barriers between steps.

use crate::cases::{Case, SLOWDOWN};
use polyshard::layout::Mesh;
use polyshard::machine::Machine;
use polyshard::planner::placement::PlacedMesh;
use polyshard::planner::reduce::{Hierarchy, ReduceOptions, Reduction, Strategy, best};
use polyshard::runtime::{ReduceOp, World, spmd_emulated};
use polyshard::{Error, Result};
use polyshard_testing::bench::record::{self, Record};
use std::time::Instant;

/// The start and the end of a run on a rank.
type Span = (Instant, Instant);

/// Prints for each program, the simulator's choice first, its simulated seconds and those of each run: from the first
/// rank's start to the last rank's end.
pub(crate) fn measure(machine: &Machine, case: &Case, elements: usize, runs: usize) -> Result<()> {
    let bytes = (elements * size_of::<f64>()) as f64;
    let names = ["x", "y", "z"];
    let mesh = Mesh::new(names.into_iter().zip(case.matrix.axes()));
    let placed = PlacedMesh::new(&mesh, machine, &case.matrix).expect("the matrix is of the mesh and the machine");
    let ranked = best(machine, &case.matrix, &case.axes, bytes, &ReduceOptions::default()).expect("the case is valid");
    let hierarchy = Hierarchy::on_machine(machine, &case.matrix, &case.axes).expect("the case is valid");

    // By rank, then by run, then by program.
    let spans: Vec<Vec<Vec<Span>>> = spmd_emulated(machine, SLOWDOWN, |world| {
        let reductions: Vec<Reduction<f64>> = ranked
            .iter()
            .map(|ranked| {
                Reduction::new(world, &placed, &case.axes, elements, Strategy::Program(ranked.program.clone()))
            })
            .collect::<Result<_>>()?;
        let expected = expected(world, case, elements);
        let mut data = vec![0.0; elements];
        let mut spans = Vec::with_capacity(runs);
        // Contestants run in turns, so that noise on the machine affects all of them.
        for run in 0..=runs {
            let mut turns = Vec::with_capacity(reductions.len());
            for (reduction, ranked) in reductions.iter().zip(&ranked) {
                fill(&mut data, world.rank());
                world.comm().barrier()?;
                let start = Instant::now();
                reduction.run(&mut data, ReduceOp::Sum)?;
                turns.push((start, Instant::now()));
                assert!(run > 0 || data == expected, "rank {} has another sum by {}", world.rank(), ranked.program);
            }
            if run > 0 {
                spans.push(turns);
            }
        }
        Ok::<_, Error>(spans)
    })?;

    for (nth, ranked) in ranked.iter().enumerate() {
        let contestant = ranked.program.describe(&hierarchy).replace(", ", ",").replace("; ", ";");
        let print = |quantity: &str, value| {
            let [backend, dtype] = ["emulated", "f64"].map(String::from);
            let grid = machine.name().to_string();
            let case = record::Case { backend, grid, dtype, size: format!("{}:{elements}", case.name()) };
            println!("{}", Record { quantity: quantity.into(), case, contestant: contestant.clone(), value });
        };
        print("simulated", ranked.simulation.total() * SLOWDOWN);
        for run in 0..runs {
            let start = spans.iter().map(|turns| turns[run][nth].0).min().expect("there are ranks");
            let end = spans.iter().map(|turns| turns[run][nth].1).max().expect("there are ranks");
            print("measured", (end - start).as_secs_f64());
        }
    }
    Ok(())
}

/// Whole numbers, whose sums are exact in any order.
fn element(rank: usize, i: usize) -> f64 {
    ((rank * 7919 + i * 31) % 2003) as f64
}

fn fill(data: &mut [f64], rank: usize) {
    data.iter_mut().enumerate().for_each(|(i, value)| *value = element(rank, i));
}

/// The sum that this rank must have at the end.
fn expected(world: &World, case: &Case, elements: usize) -> Vec<f64> {
    let groups = case.matrix.groups(&case.axes).expect("the axes exist");
    let group = groups.iter().find(|group| group.contains(&world.rank())).expect("groups cover the machine");
    (0..elements).map(|i| group.iter().map(|&rank| element(rank, i)).sum()).collect()
}
