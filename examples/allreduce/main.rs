//! The sum of gradients over the replicas of a model: placed on a machine, planned, explained, run and checked.
//!
//! The mesh goes on the machine where the sum takes least time by the machine's model, and the sum is made of the steps
//! that take least there. It then runs in one all-reduce, by those steps, and in one fixed order, each compared with the
//! sequential sum. N. Xie, T. Norman, D. Grewe and D. Vytiniotis, "Synthesizing optimal parallelism placement and
//! reduction strategies on hierarchical systems for deep learning", MLSys 2022.
//!
//! ```text
//! cargo run --release --example allreduce -- --hierarchy 2,4 --mesh data=4,tensor=2 --reduce data --machine v100
//! mpirun -n 8 target/release/examples/allreduce --mesh 4x2 --reduce 0 --elements 1000000
//! ```
//!
//! The seconds that are simulated are those of the machine that is described, not of the one that it runs on.

mod judge;
mod setting;

use clap::Parser;
use polyshard::cli::axes::Axes;
use polyshard::cli::dtypes::{dtype_parser, with_type};
use polyshard::cli::numbers::whole;
use polyshard::cli::values::{Number, element};
use polyshard::machine::Collective;
use polyshard::machine::units::counted;
use polyshard::planner::placement::{Ranked, Traffic, best};
use polyshard::prelude::*;
use polyshard::{DType, PlacedMesh, ReduceOp, Reduction, Strategy};
use polyshard_testing::example::launch::{Stop, failure, finish};
use polyshard_testing::example::progress::Progress;
use polyshard_testing::example::room::{bytes_of, check_room};
use polyshard_testing::example::run::{Measuring, most, place, slowest, timed};
use setting::{Counts, machine, parse_counts, positions};
use std::process::ExitCode;
use std::time::Instant;

/// A sum over axes of a mesh, on a hierarchical machine.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example allreduce -- --hierarchy 2,4 --mesh data=4,tensor=2 --reduce data --machine v100
  mpirun -n 8 target/release/examples/allreduce --mesh 4x2 --reduce 0 --elements 100000")]
struct Options {
    /// Members of each level of the machine, outermost first [default: 8 devices in 2 nodes; under an MPI launcher, as many
    /// devices as it started ranks].
    #[arg(long, value_parser = parse_counts, value_name = "COUNTS")]
    hierarchy: Option<Counts>,
    /// The machine: a100, v100, tpu-v4p, tpu-v5e, tpu-v5p, or a TOML file.
    #[arg(long, value_name = "MACHINE", default_value = "a100")]
    machine: String,
    /// The mesh, of as many ranks as devices, as 4x2 or with names of its axes, as data=4,tensor=2 [default: one axis].
    #[arg(long, value_name = "MESH")]
    mesh: Option<Axes>,
    /// The axes to sum over: their names, or their numbers from 0.
    #[arg(long, value_name = "AXES", default_value = "0")]
    reduce: String,
    /// Elements of each rank's array.
    #[arg(long, value_name = "N", value_parser = whole::<usize>, default_value = "1048576", allow_negative_numbers = true)]
    elements: usize,
    /// The element type.
    #[arg(long = "type", value_parser = dtype_parser(), value_name = "TYPE", default_value = "f32")]
    dtype: DType,
    /// Makes up the arrays with this seed.
    #[arg(long, value_parser = whole::<u64>, default_value = "1", allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    measuring: Measuring,
}

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Result<(), Stop> {
    let options = Options::try_parse()?;
    with_type!(options.dtype, T => perform::<T>(&options))
}

/// What is summed, and where.
struct Sum {
    placed: PlacedMesh,
    axes: Vec<usize>,
    /// What the placement was chosen among.
    choice: String,
}

fn perform<T: Number>(options: &Options) -> Result<(), Stop> {
    let sum = plan(options, size_of::<T>())?;
    polyshard::spmd(sum.placed.mesh().size(), |world| measure::<T>(world, &sum, options))?;
    Ok(())
}

/// Places the mesh where the sum takes least time.
fn plan(options: &Options, element: usize) -> Result<Sum, Stop> {
    let said = |error: polyshard::PlacementError| Stop::Failed(error.to_string());
    let machine = machine(&options.machine, options.hierarchy.as_ref())?;
    let axes = options.mesh.clone().unwrap_or_else(|| Axes::unnamed(&[machine.devices()]));
    let (mesh, extents) = (axes.mesh(|nth| format!("p{nth}")), axes.extents());
    let axes = &positions(&options.reduce, &mesh)?;
    let bytes = options.elements as f64 * element as f64;
    let traffic = Traffic { operation: Collective::AllReduce, axes: axes.clone(), bytes };
    let ranked = best(&machine, &extents, &[traffic]).map_err(|error| Stop::Failed(error.to_string()))?;
    let told = |ranked: &Ranked| format!("{} in {:.3e} s", ranked.matrix, ranked.seconds);
    let choice = match &ranked[..] {
        [first, .., last] => {
            format!("best of {} placements, simulated: {}; worst: {}", ranked.len(), told(first), told(last))
        }
        [only] => format!("the only placement, simulated: {}", told(only)),
        [] => return Err(Stop::Failed(format!("no placement of {extents:?} was found: this is a bug of polyshard"))),
    };
    let placed = PlacedMesh::new(&mesh, &machine, &ranked[0].matrix).map_err(said)?;
    let axes = placed.positions(axes).map_err(said)?;
    Ok(Sum { placed, axes, choice })
}

/// Runs the sum by three strategies on this rank, which all ranks must do; rank 0 says what came out.
fn measure<T: Number>(world: &World, sum: &Sum, options: &Options) -> polyshard::Result<()> {
    // From here on ranks are those of the mesh.
    let world = &*polyshard::place(world, &sum.placed)?;
    let progress = Progress::new(world);
    progress.phase("making the arrays");
    // What is summed, what it is made from, and what is staged.
    check_room(world, bytes_of::<T>(&[4, options.elements]), 0)?;
    let make = |strategy: Strategy| Reduction::<T>::new(world, &sum.placed, &sum.axes, options.elements, strategy);
    let best = make(Strategy::Best)?;
    if world.is_root() {
        progress.say(&format!("allreduce: {}\n{}\n{}", place(world), sum.choice, best.explain()))?;
    }
    let begin: Vec<T> = (0..options.elements).map(|i| element(options.seed, &[world.rank(), i])).collect();
    let members = judge::members(&sum.placed, &sum.axes, world.rank());

    let others = [("direct", make(Strategy::Direct)?), ("deterministic", make(Strategy::Deterministic)?)];
    let [direct, deterministic] = &others;
    for (name, reduction) in [(direct.0, &direct.1), ("best", &best), (deterministic.0, &deterministic.1)] {
        let (mut seconds, mut received, mut data) = (Vec::new(), 0, Vec::new());
        for nth in 1..=options.measuring.repeat {
            progress.phase(format!("{name}: running {nth} of {}", options.measuring.repeat));
            data.clone_from(&begin);
            world.comm().barrier()?;
            let before = world.bytes_received();
            let start = Instant::now();
            reduction.run(&mut data, ReduceOp::Sum)?;
            let took = start.elapsed().as_secs_f64();
            received = world.bytes_received() - before;
            seconds.push(slowest(world, took)?);
        }
        let received = most(world, received)?;
        if world.is_root() {
            let time = timed(&mut seconds, |seconds| format!("{seconds:.6} s"));
            let received = counted(received, "byte");
            progress.say(&format!("{name}: {time}; received per rank: at most {received}"))?;
        }
        if !options.measuring.no_check {
            progress.phase(format!("{name}: checking"));
            let verdict = judge::judge(options.dtype, options.seed, &members, &data);
            // The errors of the rank that is furthest off.
            let (error, part) = (slowest(world, verdict.error)?, slowest(world, verdict.part)?);
            let exact = *reduction.strategy() == Strategy::Deterministic;
            let text = format!("{name}: largest error against a sequential sum: {error:e}");
            if error > 0.0 && exact || part > 1.0 {
                let most =
                    if exact { "the bits should be the same".into() } else { format!("rounding explains 1/{part}") };
                return Err(failure(format!("the answer of `allreduce` is wrong; {text}, but {most}")));
            }
            if world.is_root() {
                let of = if error > 0.0 { format!(" ({part:.3} of what rounding explains)") } else { String::new() };
                progress.say(&format!("{text}{of}"))?;
            }
        }
    }
    Ok(())
}
