//! A two-layer perceptron, forward and backward, data-parallel along one axis of the mesh and tensor-parallel along the
//! other: Y = relu(X·W1)·W2, and the gradients of W1, W2 and X.
//!
//! W1 is cut by columns and W2 by rows, so that nothing moves between the layers and each direction needs one sum along
//! the tensor axis; gradients of the weights are terms along the data axis until they are closed at the end. M. Shoeybi
//! et al., "Megatron-LM: Training multi-billion parameter language models using model parallelism", arXiv 1909.08053,
//! section 3. None of that is written here: arrays lie as they do, and the planner finds what to do about it.
//!
//! ```text
//! cargo run --release --example megatron -- --mesh 2x4 --print explain
//! mpirun -n 6 target/release/examples/megatron --mesh 2x3 --size 30,50,70 --type f64
//! ```

mod judge;
mod network;
mod plans;

use clap::{Parser, ValueEnum};
use network::{Network, Programs};
use plans::{Plans, Size};
use polyshard::DType;
use polyshard::cli::axes::Axes;
use polyshard::cli::dtypes::{dtype_parser, with_type};
use polyshard::cli::numbers::whole;
use polyshard::cli::values::Number;
use polyshard::machine::units::counted;
use polyshard::prelude::*;
use polyshard_testing::example::launch::{Stop, finish};
use polyshard_testing::example::mesh::{balanced, mesh};
use polyshard_testing::example::progress::Progress;
use polyshard_testing::example::run::{Measuring, most, place, slowest, timing};
use polyshard_testing::example::size::parse_extents;
use std::process::ExitCode;
use std::time::Instant;

/// Y = relu(X·W1)·W2 and the gradients of W1, W2 and X, by data (d) and tensor (t) parallelism.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example megatron -- --mesh d=2,t=4 --print explain
  mpirun -n 6 target/release/examples/megatron --mesh 2x3 --size 30,50,70 --type f64")]
struct Options {
    /// The mesh of data axis and tensor axis, as 2x4 or with names, as d=2,t=4 [default: 2x2; under an MPI launcher, as
    /// many ranks as it started].
    #[arg(long, value_name = "MESH")]
    mesh: Option<Axes>,
    /// Rows of X, columns of X and Y, and columns of W1; they need not divide.
    #[arg(long, value_parser = parse_size, value_name = "BATCH,MODEL,HIDDEN", default_value = "64,256,1024",
        allow_hyphen_values = true)]
    size: Size,
    /// The element type.
    #[arg(long = "type", value_parser = dtype_parser(), value_name = "TYPE", default_value = "f32")]
    dtype: DType,
    /// Makes up X as `polyshard random` does with this seed, W1, W2 and the target with the next ones.
    #[arg(long, value_parser = whole::<u64>, default_value = "1", allow_negative_numbers = true)]
    seed: u64,
    /// Print this instead of running.
    #[arg(long, value_enum)]
    print: Option<Print>,
    #[command(flatten)]
    measuring: Measuring,
}

/// What to print instead of running.
#[derive(Clone, Copy, ValueEnum)]
enum Print {
    /// For each product, all sequences of its plan with what they cost, and the one chosen.
    Explain,
}

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Result<(), Stop> {
    let options = Options::try_parse()?;
    with_type!(options.dtype, T => perform::<T>(&options))
}

fn perform<T: Number>(options: &Options) -> Result<(), Stop> {
    let plans = Plans::new::<T>(&mesh("megatron", options.mesh.as_ref(), ["d", "t"], 4, balanced)?, options.size)?;
    match options.print {
        Some(Print::Explain) => return Err(Stop::Said(plans.explain())),
        None => polyshard::spmd(plans.mesh().size(), |world| measure::<T>(world, &plans, options))?,
    };
    Ok(())
}

/// Runs forward and backward on this rank, which all ranks must do; rank 0 prints figures and judges the answers.
fn measure<T: Number>(world: &World, plans: &Plans, options: &Options) -> polyshard::Result<()> {
    let progress = Progress::new(world);
    if world.is_root() {
        let Size { batch, model, hidden } = options.size;
        let what = format!("{}, batch = {batch}, model = {model}, hidden = {hidden}", options.dtype);
        progress.say(&format!("megatron: Y = relu(X * W1) * W2, forward and backward, {what}"))?;
        progress.say(&format!("mesh ({}), {}\n{}", plans.mesh(), place(world), plans.chosen()))?;
    }
    progress.phase("making X, W1, W2 and the target");
    let programs = Programs::new::<T>(plans)?;
    let mut network = Network::<T>::new(world, &programs, options.seed)?;
    let (mut seconds, mut received) = (Vec::new(), 0);
    for nth in 1..=options.measuring.repeat {
        progress.phase(format!("running {nth} of {}", options.measuring.repeat));
        world.comm().barrier()?;
        let before = world.bytes_received();
        let start = Instant::now();
        network.run()?;
        let took = start.elapsed().as_secs_f64();
        received = world.bytes_received() - before;
        seconds.push(slowest(world, took)?);
    }
    let received = most(world, received)?;
    if world.is_root() {
        let Size { batch, model, hidden } = options.size;
        progress.say(&timing(&mut seconds, 12.0 * batch as f64 * model as f64 * hidden as f64))?;
        let received = counted(received, "byte");
        progress.say(&format!("received per rank: at most {received}; planned for whole tiles: {}", plans.bytes()))?;
    }
    if !options.measuring.no_check {
        progress.phase("checking");
        if let Some(found) = network.gather(world)? {
            judge::judge(&found, options.size, options.seed)?.iter().try_for_each(|said| progress.say(said))?;
        }
    }
    Ok(())
}

fn parse_size(text: &str) -> Result<Size, String> {
    let [batch, model, hidden] = parse_extents(text, "batch, model and hidden", "64,256,1024")?;
    Ok(Size { batch, model, hidden })
}
