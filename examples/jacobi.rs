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
    let (rounds, tolerance) = (args.rounds, args.tolerance);
    let solver = kernel! {
        fn jacobi(A: [f64; n, n], b: [f64; n]) -> z: [f64; n] {
            z[i] = 0.0;
            let d[i] = A[i, i];
            let r = 1.0;
            repeat(rounds, until r < tolerance) {
                let e[i] = b[i];
                e[i] += -A[i, j] * z[j];
                r = e[i] * e[i];
                z[i] = z[i] + e[i] / d[i];
            }
        }
    };
    vars!(i, io, ii);
    let program = solver.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("b", [i.at(x)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), |at| match at {
            [i, j] if i == j => n as f64,
            at => 0.5 * f64::random(1, at),
        })?;
        let b = DistArray::from_fn(world, program.sharding("b"), |at| 0.5 * f64::random(2, at))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let solved = prepared.run(&[&a, &b])?;
        let seconds = start.elapsed().as_secs_f64();
        let (rounds, received) = (prepared.rounds()[0], world.bytes_received() - before);
        let error = program.verify(world, &[&a, &b], &[&solved], 1e-6)?;
        if let (Some(a), Some(b), Some(solved)) = (a.gather(world)?, b.gather(world)?, solved.gather(world)?) {
            println!("{seconds:.6} s, {rounds} rounds, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let row = |i: usize| b[[i]] - (0..n).map(|j| a[[i, j]] * solved[[j]]).sum::<f64>();
            let residual = (0..n).map(|i| row(i).abs()).max_by(f64::total_cmp).unwrap_or(0.0);
            println!("largest residual, computed from A and z: {residual:e}");
            let is_wrong = residual.is_nan() || rounds < args.rounds && residual > 10.0 * args.tolerance.sqrt();
            return Ok(is_wrong.then(|| format!("the residual is {residual:e} after {rounds} rounds")));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}
