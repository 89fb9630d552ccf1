//! Two products in a row: Y = X·W1 by columns, Z = Y·W2 by rows, and between them one redistribution of Y.
//!
//! Each product is local to its rank. What the first leaves is not what the second wants, so the pipeline plans how
//! Y gets from columns to rows: an all-to-all. N. Rink, A. Paszke, D. Vytiniotis and G. Schmid, "Memory-efficient
//! array redistribution through portable collective communication", arXiv 2112.01075, Listing 3.
//!
//! ```text
//! cargo run --release --example chain -- --mesh 32 --print explain
//! mpirun -n 4 target/release/examples/chain --size 50,70,30,90 --type i64
//! ```

#[expect(dead_code, reason = "what the examples share is mostly about one product")]
mod common;

use clap::{Parser, ValueEnum};
use common::axes::Axes;
use common::check::check;
use common::dtypes::{dtype_parser, with_type};
use common::launch::{Stop, failure, finish};
use common::mesh::mesh;
use common::numbers::whole;
use common::operand::Operand;
use common::progress::Progress;
use common::room::{bytes_of, check_room};
use common::run::{Measuring, most, place, slowest, timing, told};
use common::size::parse_extents;
use common::values::Number;
use ndarray::Ix2;
use polyshard::DType;
use polyshard::pipeline::Sequence;
use polyshard::planner::units::counted;
use polyshard::prelude::*;
use std::process::ExitCode;
use std::time::Instant;

/// Z = X·W1·W2, where Y = X·W1 is redistributed from columns to rows.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example chain -- --mesh 32 --print explain
  mpirun -n 4 target/release/examples/chain --size 50,70,30,90 --type i64")]
struct Options {
    /// The mesh, of one axis, as 4 or with a name, as devs=4 [default: 4 ranks; under an MPI launcher, as many as it
    /// started].
    #[arg(long, value_name = "MESH")]
    mesh: Option<Axes>,
    /// Extents m,k,h,n of X[m, k], W1[k, h] and W2[h, n]; they need not divide.
    #[arg(long, value_parser = parse_size, value_name = "M,K,H,N", default_value = "32,1024,2048,256",
        allow_hyphen_values = true)]
    size: Size,
    /// The element type.
    #[arg(long = "type", value_parser = dtype_parser(), value_name = "TYPE", default_value = "f32")]
    dtype: DType,
    /// Makes up X as `polyshard random` does with this seed, W1 and W2 with the next ones.
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
    /// The stages, and the redistributions between them.
    Explain,
}

/// The extents of the three matrices; a type of its own because clap takes an array for several arguments.
#[derive(Clone, Copy)]
struct Size([usize; 4]);

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Result<(), Stop> {
    let options = Options::try_parse()?;
    with_type!(options.dtype, T => perform::<T>(&options))
}

fn perform<T: Number>(options: &Options) -> Result<(), Stop> {
    let chain = chain::<T>(&mesh("chain", options.mesh.as_ref(), &["devs"], &[4])?, options.size)?;
    match options.print {
        Some(Print::Explain) => return Err(Stop::Said(chain.explain())),
        None => polyshard::spmd(chain.mesh().size(), |world| measure::<T>(world, &chain, options))?,
    };
    Ok(())
}

/// The two products on a mesh of one axis, and what comes between them.
fn chain<T: Number>(mesh: &Mesh, Size([rows, inner, hidden, columns]): Size) -> Result<Sequence, Stop> {
    vars!(m, n, k, mo, mi, no, ni);
    let [devs] = mesh.axes();
    let first = kernel! {
        fn first(X: [T; rows, inner], W1: [T; inner, hidden]) -> Y: [T; rows, hidden] {
            Y[m, n] += X[m, k] * W1[k, n]
        }
    };
    let by_columns = first
        .distribute([n], [no], [ni], mesh)
        .shard("W1", [n.at(devs)])
        .shard("Y", [n.at(devs)])
        .tensorize([m, ni, k])
        .lower()?;
    let second = kernel! {
        fn second(Y: [T; rows, hidden], W2: [T; hidden, columns]) -> Z: [T; rows, columns] {
            Z[m, n] += Y[m, k] * W2[k, n]
        }
    };
    let by_rows = second
        .distribute([m], [mo], [mi], mesh)
        .shard("Y", [m.at(devs)])
        .shard("Z", [m.at(devs)])
        .tensorize([mi, n, k])
        .lower()?;
    let chain = Pipeline::new().stage(&by_columns, ["X", "W1"], "Y").stage(&by_rows, ["Y", "W2"], "Z");
    chain.build().map_err(|error| Stop::Failed(error.to_string()))
}

/// Runs the chain on this rank, which all ranks must do; rank 0 prints figures and judges the answer.
fn measure<T: Number>(world: &World, chain: &Sequence, options: &Options) -> polyshard::Result<()> {
    let progress = Progress::new(world);
    if world.is_root() {
        progress.say(&heading(world, chain, options))?;
    }
    progress.phase("making X, W1 and W2");
    let Size([m, k, h, n]) = options.size;
    let bytes = |shapes: &[[usize; 2]]| shapes.iter().map(|shape| bytes_of::<T>(shape)).sum::<u128>();
    // X and W2 are whole on each rank, and to check them, all are, Y and Z twice.
    let rank = bytes(&[[m, k], [h, n]]) + bytes(&[[k, h], [m, h], [m, h], [m, n]]) / world.size() as u128;
    let whole = bytes(&[[m, k], [k, h], [h, n], [m, h], [m, h], [m, n], [m, n]]);
    check_room(world, rank, if options.measuring.no_check { 0 } else { whole })?;
    let operands = [0, 1, 2].map(|nth| Operand::Random(options.seed.wrapping_add(nth)));
    let made = operands.iter().zip(chain.inputs()).map(|(operand, input)| operand.shard::<T>(world, &input.sharding));
    let inputs = made.collect::<polyshard::Result<Vec<_>>>()?;
    let inputs: Vec<_> = inputs.iter().collect();

    let prepared = chain.prepare(world)?;
    let (mut seconds, mut received, mut z) = (Vec::new(), 0, None);
    for nth in 1..=options.measuring.repeat {
        progress.phase(format!("running {nth} of {}", options.measuring.repeat));
        drop(z.take());
        world.comm().barrier()?;
        let before = world.bytes_received();
        let start = Instant::now();
        z = Some(prepared.run(world, &inputs)?);
        let took = start.elapsed().as_secs_f64();
        received = world.bytes_received() - before;
        seconds.push(slowest(world, took)?);
    }
    let received = most(world, received)?;
    if world.is_root() {
        let [m, k, h, n] = options.size.0.map(|extent| extent as f64);
        progress.say(&timing(&mut seconds, 2.0 * m * h * (k + n)))?;
        progress.say(&format!("received per rank: at most {}", counted(received, "byte")))?;
    }
    if options.measuring.no_check {
        return Ok(());
    }
    progress.phase("checking");
    let outputs = prepared.run_all(world, &inputs)?;
    let z = z.expect("`--repeat` is at least 1").gather(world)?;
    if let (Some(y), Some(z)) = (outputs[0].1.gather(world)?, z) {
        // Z is judged by the Y that was found, so that each bound is that of one product.
        let y = y.into_dimensionality::<Ix2>().expect("Y is a matrix");
        let whole = |nth: usize| operands[nth].whole::<T>(chain.inputs()[nth].sharding.shape()).map_err(failure);
        let [x, w1, w2] = [whole(0)?, whole(1)?, whole(2)?];
        let of_y = check(options.dtype, x.view(), w1.view(), y.view().into_dyn());
        progress.say(&format!("Y: {}", told("chain", options.dtype, &of_y)?))?;
        let of_z = check(options.dtype, y.view(), w2.view(), z.view());
        progress.say(&format!("Z: {}", told("chain", options.dtype, &of_z)?))?;
    }
    Ok(())
}

fn heading(world: &World, chain: &Sequence, options: &Options) -> String {
    let [m, k, h, n] = options.size.0;
    let mut text = format!("chain: Y = X * W1, Z = Y * W2, {}, m = {m}, k = {k}, h = {h}, n = {n}\n", chain.dtype());
    text += &format!("mesh ({}), {}", chain.mesh(), place(world));
    for each in chain.conversions() {
        text += &format!("\n{}: {} to {}", each.value(), each.source(), each.target());
    }
    text
}

fn parse_size(text: &str) -> Result<Size, String> {
    parse_extents(text, "m, k, h and n", "32,1024,2048,256").map(Size)
}
