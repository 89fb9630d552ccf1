//! Jacobi's method for A z = b: each round adds the residual b - A z, divided by the diagonal of A, to z, until the
//! residual is small.
//!
//! Each rank owns rows of A, which never move; the diagonal is extracted once, before the rounds. A round gathers z,
//! and its sum of squares, which ends the rounds, has the same bits on all ranks.
//!
//! ```text
//! cargo run --release --example jacobi -- --explain
//! mpirun -n 6 target/release/examples/jacobi --size 500 --tolerance 1e-12
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Jacobi's method on a dense, diagonally dominant matrix in row blocks over a line of ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example jacobi -- --explain
  mpirun -n 6 target/release/examples/jacobi --size 500 --tolerance 1e-12")]
struct Args {
    /// Ranks [default: 4; under an MPI launcher, as many as it started].
    #[arg(long)]
    mesh: Option<usize>,
    /// Extent of the matrix, at least 1; the mesh need not divide it.
    #[arg(long, default_value_t = 300)]
    size: usize,
    /// Stop when the square of the residual is below this.
    #[arg(long, default_value_t = 1e-20)]
    tolerance: f64,
    /// Maximum number of rounds.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
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
    let diagonal = kernel! { fn diagonal(A: [f64; n, n]) -> d: [f64; n] { d[i] = A[i, i] } };
    let product = kernel! { fn product(A: [f64; n, n], z: [f64; n]) -> y: [f64; n] { y[i] += A[i, j] * z[j] } };
    let residual = kernel! {
        fn residual(b: [f64; n], y: [f64; n]) -> r: f64 { r[] += (b[i] - y[i]) * (b[i] - y[i]) }
    };
    let next = kernel! {
        fn next(z: [f64; n], b: [f64; n], y: [f64; n], d: [f64; n]) -> w: [f64; n] { w[i] = z[i] + (b[i] - y[i]) / d[i] }
    };
    let product = product
        .distribute([i], [io], [ii], &mesh)
        .shard("A", [i.at(x)])
        .shard("z", [j.at(x)])
        .shard("y", [i.at(x)])
        .lower()?;
    // All other arrays are sharded like the rows of A.
    let lowered = |schedule: Schedule, tensors: &[&'static str]| {
        let schedule = schedule.distribute([i], [io], [ii], &mesh);
        tensors.iter().fold(schedule, |schedule, name| schedule.shard(*name, [dim(0).at(x)])).lower()
    };
    let diagonal = lowered(diagonal, &["A", "d"])?;
    let residual = lowered(residual, &["b", "y"])?;
    let next = lowered(next, &["z", "b", "y", "d", "w"])?;
    let round = Sequence::new()
        .stage(&product, ["A", "z"], "y")
        .stage(&residual, ["b", "y"], "r")
        .stage(&next, ["z", "b", "y", "d"], "w")
        .carry("w", "z")
        .until("r", args.tolerance);
    let program = Sequence::new().stage(&diagonal, ["A"], "d").repeat(args.rounds, round).build()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        let arrays = program.inputs().map(|input| {
            let element = |at: &[usize]| match (input.name.as_str(), at) {
                ("A", [i, j]) if i == j => n as f64,
                ("A", _) | ("b", _) => 0.5 * f64::random(1, at),
                _ => 0.0,
            };
            DistArray::from_fn(world, &input.sharding, element)
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<_> = arrays.iter().collect();
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let solved = prepared.run(&inputs)?;
        let seconds = start.elapsed().as_secs_f64();
        let (rounds, received) = (prepared.rounds()[0], world.bytes_received() - before);
        let error = program.verify(world, &inputs, &[&solved], 1e-6)?;
        if world.is_root() {
            println!("{seconds:.6} s, {rounds} rounds, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
