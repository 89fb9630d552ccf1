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

use clap::{Parser, ValueEnum};
use polyshard::cli::axes::Axes;
use polyshard::cli::dtypes::{dtype_parser, with_type};
use polyshard::cli::numbers::whole;
use polyshard::cli::say::say;
use polyshard::cli::values::{Number, element};
use polyshard::prelude::*;
use polyshard::{DType, Pipeline, reference};
use polyshard_testing::example;
use polyshard_testing::example::check::check;
use polyshard_testing::example::launch::{Stop, failure};
use polyshard_testing::example::mesh::{balanced, mesh};
use polyshard_testing::example::room::{bytes_of, check_room};
use polyshard_testing::example::run::{Measuring, flops, place};
use polyshard_testing::example::size::{Size, parse_size};
use std::process::ExitCode;

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
    #[arg(long, value_parser = parse_size::<4>("m, k, h and n", "32,1024,2048,256"), value_name = "M,K,H,N", default_value = "32,1024,2048,256",
        allow_hyphen_values = true)]
    size: Size<4>,
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

fn main() -> ExitCode {
    example::main(|options: Options| with_type!(options.dtype, T => run::<T>(&options)))
}

fn run<T: Number>(options: &Options) -> Result<(), Stop> {
    let (programs, chain) = chain::<T>(&mesh("chain", options.mesh.as_ref(), ["devs"], 4, balanced)?, options.size)?;
    match options.print {
        Some(Print::Explain) => return Err(Stop::Said(chain.explain())),
        None => polyshard::spmd(chain.mesh().size(), |world| measure::<T>(world, &programs, &chain, options))?,
    };
    Ok(())
}

/// The two products on a mesh of one axis, and what comes between them.
fn chain<T: Number>(
    mesh: &Mesh,
    Size([rows, inner, hidden, columns]): Size<4>,
) -> Result<([Program; 2], Program), Stop> {
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
    let chain = Pipeline::new().stage(&by_columns, ["X", "W1"], "Y").stage(&by_rows, ["Y", "W2"], "Z").keep("Y");
    let chain = chain.build()?;
    Ok(([by_columns, by_rows], chain))
}

/// Runs the chain on this rank, which all ranks must do; the root prints figures and compares Y and Z.
fn measure<T: Number>(
    world: &World,
    programs: &[Program; 2],
    chain: &Program,
    options: &Options,
) -> polyshard::Result<()> {
    let Size([m, k, h, n]) = options.size;
    let bytes = |shapes: &[[usize; 2]]| shapes.iter().map(|shape| bytes_of::<T>(shape)).sum::<u128>();
    // X and W2 are whole on each rank, and to check them, all are twice, Y and Z three times.
    let rank = bytes(&[[m, k], [h, n]]) + bytes(&[[k, h], [m, h], [m, h], [m, n]]) / world.size() as u128;
    let whole = 2 * bytes(&[[m, k], [k, h], [h, n]]) + 3 * bytes(&[[m, h], [m, n]]);
    check_room(world, rank, if options.measuring.no_check { 0 } else { whole })?;
    if world.is_root() {
        say(&heading(world, chain, options)).map_err(failure)?;
    }
    let input = |nth: u64, name: &str| {
        let seed = options.seed.wrapping_add(nth);
        DistArray::from_fn(world, chain.sharding(name), |index| element::<T>(seed, index))
    };
    let (x, w1, w2) = (input(0, "X")?, input(1, "W1")?, input(2, "W2")?);

    let mut prepared = chain.prepare(world)?;
    let flops = programs.iter().map(flops).sum();
    options.measuring.time(world, flops, || prepared.run(&[&x, &w1, &w2]))?;
    if options.measuring.no_check {
        return Ok(());
    }
    // Z is judged by the Y that was found, so that each bound is that of one product.
    let outputs = prepared.run_all(&[&x, &w1, &w2])?;
    let arrays = [&x, &w1, &outputs[0].1, &w2, &outputs[1].1];
    if let Some([x, w1, y, w2, z]) = options.measuring.gather(world, arrays)? {
        let [first, second] = programs.each_ref().map(Program::kernel);
        let of_y = check(&[&x, &w1], &y, k, |inputs| reference(first, inputs, None))?;
        let of_z = check(&[&y, &w2], &z, h, |inputs| reference(second, inputs, None))?;
        say(&format!("Y: {of_y}\nZ: {of_z}\n")).map_err(failure)?;
    }
    Ok(())
}

fn heading(world: &World, chain: &Program, options: &Options) -> String {
    let [m, k, h, n] = options.size.0;
    let mut text = format!("chain: Y = X * W1, Z = Y * W2, {}, m = {m}, k = {k}, h = {h}, n = {n}\n", chain.dtype());
    text += &format!("mesh ({}), {}\n", chain.mesh(), place(world));
    for moved in chain.moves() {
        let [source, target] = [moved.source, moved.target].map(|id| chain.array(id));
        text += &format!("{}: {} to {}, {}\n", source.name, source.sharding, target.sharding, moved.pattern);
    }
    text
}
