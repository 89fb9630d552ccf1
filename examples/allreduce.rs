//! Sums gradients over the replicas of a model: placed on a machine, planned, explained, run and checked.
//!
//! The mesh is placed on the machine where the sum is fastest by the machine's model, with the steps that are fastest
//! there. The sum then runs as one all-reduce, by those steps, and in a fixed order; each is compared with the
//! sequential sum. N. Xie, T. Norman, D. Grewe and D. Vytiniotis, "Synthesizing optimal parallelism placement and
//! reduction strategies on hierarchical systems for deep learning", MLSys 2022.
//!
//! ```text
//! cargo run --release --example allreduce -- --hierarchy 2,4 --mesh data=4,tensor=2 --reduce data --machine v100
//! mpirun -n 8 target/release/examples/allreduce --mesh 4x2 --reduce 0 --elements 1000000
//! ```
//!
//! Simulated seconds are those of the described machine, not of the one that runs the example.

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::machine::Collective;
use polyshard::planner::placement::{PlacedMesh, Traffic, best, place};
use polyshard::planner::reduce::{ReduceOptions, Reduction, Strategy};
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// A sum over axes of a mesh, on a hierarchical machine.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example allreduce -- --hierarchy 2,4 --mesh data=4,tensor=2 --reduce data --machine v100
  mpirun -n 8 target/release/examples/allreduce --mesh 4x2 --reduce 0 --elements 100000")]
struct Args {
    /// Members of each level of the machine, outermost first: 2,4 is 2 nodes of 4 devices [default: 8 devices in 2 nodes; under
    /// an MPI launcher, as many devices as it started ranks].
    #[arg(long, value_name = "COUNTS", value_delimiter = ',')]
    hierarchy: Vec<usize>,
    /// Machine: a100, v100, tpu-v4p, tpu-v5e or tpu-v5p.
    #[arg(long, default_value = "a100")]
    machine: String,
    /// Mesh of as many ranks as devices: 4x2, or with named axes, data=4,tensor=2 [default: one axis].
    #[arg(long)]
    mesh: Option<Mesh>,
    /// Axes to sum over: their names, or their numbers from 0.
    #[arg(long, value_name = "AXES", value_delimiter = ',', default_value = "0")]
    reduce: Vec<String>,
    /// Number of elements of each rank's array.
    #[arg(long, default_value_t = 1 << 20)]
    elements: usize,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let machine = Machine::preset(&args.machine)?;
    let counts = match &args.hierarchy[..] {
        [] => spread(machine.levels().len(), launched_ranks().unwrap_or(8)),
        counts => counts.to_vec(),
    };
    let machine = machine.with_counts(&counts)?;
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::new([("p0", machine.devices())]));
    let position = |axis: &String| mesh.position(axis.into()).or_else(|| axis.parse().ok());
    let axes = args
        .reduce
        .iter()
        .map(|axis| position(axis).ok_or_else(|| format!("no axis `{axis}` to reduce over; the mesh is ({mesh})")));
    let axes = axes.collect::<Result<Vec<_>, _>>()?;

    let bytes = (args.elements * size_of::<f32>()) as f64;
    let traffic = Traffic { operation: Collective::AllReduce, axes: axes.clone(), bytes };
    let ranked = best(&machine, &mesh.extents(), &[traffic], &ReduceOptions::default())?;
    let placed = PlacedMesh::new(&mesh, &machine, &ranked[0].matrix)?;

    polyshard::spmd(mesh.size(), |world| {
        // From here, ranks are those of the mesh.
        let world = &*place(world, &placed)?;
        if world.is_root() {
            println!("best of {} placements: {}, in {:.3e} s", ranked.len(), ranked[0].matrix, ranked[0].seconds);
        }
        // Whole numbers, so that sums are exact in any order.
        let element = |rank: usize, i: usize| ((31 * rank + 7 * i) % 64) as f32;
        let own = mesh.coordinates(world.rank());
        let is_member = |rank: &usize| {
            let other = mesh.coordinates(*rank);
            (0..mesh.ndim()).all(|axis| axes.contains(&axis) || own[axis] == other[axis])
        };
        let members: Vec<usize> = (0..mesh.size()).filter(is_member).collect();
        for strategy in [Strategy::Direct, Strategy::Best, Strategy::Deterministic] {
            let sum = Reduction::new(world, &placed, &axes, args.elements, strategy)?;
            let mut data: Vec<f32> = (0..args.elements).map(|i| element(world.rank(), i)).collect();
            let (start, before) = (Instant::now(), world.bytes_received());
            sum.run(&mut data, ReduceOp::Sum)?;
            let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
            let expected = |i: usize| members.iter().map(|&rank| element(rank, i)).sum::<f32>();
            if let Some((i, found)) = data.iter().enumerate().find(|&(i, &found)| found != expected(i)) {
                let wrong = format!("wrong result: element {i} is {found} and should be {}", expected(i));
                return Err(polyshard::Error::Other(wrong.into()));
            }
            world.barrier()?;
            if world.is_root() {
                println!("{}\n{seconds:.6} s, {received} bytes received by rank 0; the sum is exact", sum.explain());
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// This many devices on the innermost two levels: in two halves if possible, otherwise in one group.
fn spread(levels: usize, devices: usize) -> Vec<usize> {
    let halves = if levels > 1 && devices > 2 && devices.is_multiple_of(2) { 2 } else { 1 };
    let mut counts = vec![1; levels];
    counts[levels.saturating_sub(2)] = halves;
    counts[levels - 1] = devices / halves;
    counts
}
