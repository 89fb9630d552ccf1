//! Power iteration: a vector that is repeatedly multiplied by a symmetric matrix and normalised converges to the
//! eigenvector of the eigenvalue of largest magnitude.
//!
//! Each rank owns rows of the matrix, which never move. A round gathers the vector, and all-reduces one sum.
//!
//! ```text
//! cargo run --release --example power -- --explain
//! mpirun -n 6 target/release/examples/power --size 500 --steps 100
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Power iteration on a dense symmetric matrix in row blocks over a line of ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example power -- --explain
  mpirun -n 6 target/release/examples/power --size 500 --steps 100")]
struct Args {
    /// Ranks [default: 4; under an MPI launcher, as many as it started].
    #[arg(long)]
    mesh: Option<usize>,
    /// Extent of the matrix, at least 1; the mesh need not divide it.
    #[arg(long, default_value_t = 300)]
    size: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = 50)]
    steps: u64,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let n = args.size;
    let mesh = Mesh::new([("x", args.mesh.or(launched_ranks()).unwrap_or(4))]);
    let [x] = mesh.axes();
    vars!(i, j, io, ii);
    let product = kernel! { fn product(M: [f64; n, n], v: [f64; n]) -> y: [f64; n] { y[i] += M[i, j] * v[j] } };
    let square = kernel! { fn square(y: [f64; n]) -> s: f64 { s[] += y[i] * y[i] } };
    let normalised = kernel! { fn normalised(y: [f64; n], s: f64) -> w: [f64; n] { w[i] = y[i] / sqrt(s[]) } };
    let product = product
        .distribute([i], [io], [ii], &mesh)
        .shard("M", [i.at(x)])
        .shard("v", [j.at(x)])
        .shard("y", [i.at(x)])
        .lower()?;
    let square = square.distribute([i], [io], [ii], &mesh).shard("y", [i.at(x)]).lower()?;
    let normalised =
        normalised.distribute([i], [io], [ii], &mesh).shard("y", [i.at(x)]).shard("w", [i.at(x)]).lower()?;
    let round = Sequence::new()
        .stage(&product, ["M", "v"], "y")
        .stage(&square, ["y"], "s")
        .stage(&normalised, ["y", "s"], "w")
        .carry("w", "v");
    let program = Sequence::new().repeat(args.steps, round).build()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        // A symmetric matrix with well-separated eigenvalues: all are positive, and one is about the sum of the others.
        let matrix = DistArray::from_fn(world, program.sharding("M"), |at| {
            1.0 + if at[0] == at[1] { (at[0] % 7) as f64 / 10.0 } else { 0.0 }
        })?;
        let begin = DistArray::from_fn(world, program.sharding("v"), |at| 1.0 + (at[0] % 3) as f64)?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let vector = prepared.run(&[&matrix, &begin])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
        let error = program.verify(world, &[&matrix, &begin], &[&vector], 1e-9)?;
        // The length of the product with a vector of length 1 is the eigenvalue.
        let mut square = [product.run(world, &[&matrix, &vector])?.block().iter().map(|y| y * y).sum::<f64>()];
        world.all_reduce(&mut square, polyshard::runtime::ReduceOp::Sum)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0; the eigenvalue is {:.9}", square[0].sqrt());
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
