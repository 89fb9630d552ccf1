//! Runs programs on threads, one per device, and compares every sum with that of a loop.
//!
//! The programs run in the printed groups. Elements are whole numbers that depend on device and index, so that sums are exact in any
//! order. Nothing is timed: threads of one process are not the machine.

use super::Reduction;
use crate::command::threads;
use crate::error::{CliError, Result};
use polyshard::layout::Mesh;
use polyshard::machine::units::counted;
use polyshard::planner::placement::PlacedMesh;
use polyshard::planner::reduce::{Ranked, Strategy};
use polyshard::runtime::{Element, ReduceOp};
use serde::Serialize;
use std::fmt;

/// Limit on devices: each is a thread.
const RANKS: usize = 64;
const SEED: u64 = 1;

/// The outcome of a run without errors.
#[derive(Serialize)]
pub(super) struct Trial {
    /// Number of programs.
    programs: usize,
    ranks: usize,
    /// Numbers per rank.
    elements: usize,
    /// Bytes received by all ranks together, by program.
    received_bytes: Vec<u64>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, ranks, elements, received_bytes } = self;
        let programs = if *programs == 1 { "one program".into() } else { counted(programs, "program") };
        let (ranks, elements) = (counted(ranks, "thread"), counted(elements, "number"));
        writeln!(f, "ran {programs} on {ranks} with {elements} each, and checked all sums")?;
        writeln!(f, "received by all ranks together: {}", threads::range(received_bytes))
    }
}

/// Runs these programs of a reduction, each on `elements` numbers per device.
pub(super) fn run(reduction: &Reduction, programs: &[Ranked], elements: usize) -> Result<Trial> {
    let ranks = reduction.matrix.size();
    threads::check_ranks("the machine", ranks, RANKS)?;
    // The numbers, their sums, and buffers for the steps of one program.
    threads::check_memory("the arrays of all ranks", 4 * ranks as u128 * elements as u128 * size_of::<i64>() as u128)?;
    let extents = reduction.matrix.axes();
    let mesh = Mesh::new(extents.iter().enumerate().map(|(axis, extent)| (format!("axis{axis}"), *extent)));
    let placed = PlacedMesh::new(&mesh, &reduction.machine, &reduction.matrix)?;
    let groups = reduction.matrix.groups(&reduction.axes)?;
    let mut sums: Vec<&[i64]> = vec![&[]; ranks];
    let group_sums: Vec<Vec<i64>> = groups.iter().map(|group| sequential(group, elements)).collect();
    for (group, sum) in groups.iter().zip(&group_sums) {
        group.iter().for_each(|&rank| sums[rank] = sum);
    }
    let found = polyshard::spmd(ranks, |world| {
        let mut received = Vec::with_capacity(programs.len());
        for ranked in programs {
            let strategy = Strategy::Lowered(ranked.lowered.clone());
            let sum = polyshard::planner::reduce::Reduction::new(world, &placed, &reduction.axes, elements, strategy)?;
            let mut data: Vec<i64> = (0..elements).map(|at| i64::random(SEED, &[world.rank(), at])).collect();
            let before = world.bytes_received();
            sum.run(&mut data, ReduceOp::Sum)?;
            received.push((world.bytes_received() - before, threads::wrong(&data, sums[world.rank()])));
        }
        Ok(received)
    })?;
    let mut received_bytes = vec![0; programs.len()];
    for (rank, programs_of_rank) in found.iter().enumerate() {
        for (program, (bytes, wrong)) in programs_of_rank.iter().enumerate() {
            if let Some(wrong) = wrong {
                let name = &programs[program].program;
                return Err(CliError::Bug { what: format!("{name} on rank {rank} is wrong: {wrong}") });
            }
            received_bytes[program] += bytes;
        }
    }
    Ok(Trial { programs: programs.len(), ranks, elements, received_bytes })
}

/// The sum over these devices.
fn sequential(group: &[usize], elements: usize) -> Vec<i64> {
    (0..elements).map(|at| group.iter().map(|&rank| i64::random(SEED, &[rank, at])).sum()).collect()
}
