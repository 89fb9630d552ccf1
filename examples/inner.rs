//! The inner product of two tensors: every rank sums over its own elements, and an all-reduce adds the partial sums.
//!
//! ```text
//! cargo run --release --example inner -- --mesh 2x3 --explain
//! mpirun -n 6 target/release/examples/inner --size 50,70
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// The sum of A[i, j]·B[i, j], on all ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example inner -- --mesh 2x3 --explain
  mpirun -n 6 target/release/examples/inner --size 50,70")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Extents of A and B; the mesh need not divide them.
    #[arg(long, value_name = "I,J", value_delimiter = ',', default_value = "1000,800")]
    size: Vec<usize>,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[rows, columns] = &args.size[..] else { return Err("`--size` takes i and j, such as 50,70".into()) };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    let kernel = kernel! {
        fn inner(A: [f32; rows, columns], B: [f32; rows, columns]) -> s: f32 { s[] += A[i, j] * B[i, j] }
    };
    vars!(i, j, io, ii, jo, ji);
    // The sharding of the sum names no axis, so all ranks have it.
    let inner = kernel
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("A", [i.at(x), j.at(y)])
        .shard("B", [i.at(x), j.at(y)])
        .shard("s", [])
        .tensorize([ii, ji]);
    let program = inner.lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        // No negative elements, so that cancellation does not make the sum smaller than its rounding errors.
        let a = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index).abs())?;
        let b = DistArray::from_fn(world, program.sharding("B"), |index| f32::random(2, index).abs())?;
        let start = Instant::now();
        let s = program.run(world, &[&a, &b])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        let error = program.verify(world, &[&a, &b], &[&s], 1e-3)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
