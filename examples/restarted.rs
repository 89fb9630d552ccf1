//! Restarted conjugate gradients: every few rounds, the residual is computed from its definition, b - A z, and the
//! search directions start again from it. So rounding errors of its updates do not accumulate.
//!
//! The solver is one block, with rounds in rounds. Each rank owns rows of A, which never move; an inner round gathers
//! the direction and all-reduces two sums. The sum that ends both has the same bits on all ranks, so all end together.
//!
//! ```text
//! cargo run --release --example restarted -- --explain
//! mpirun -n 6 target/release/examples/restarted --size 500 --steps 10
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Restarted conjugate gradients on a dense matrix in row blocks over a line of ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example restarted -- --explain
  mpirun -n 6 target/release/examples/restarted --size 500 --steps 10")]
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
    /// Rounds between restarts.
    #[arg(long, default_value_t = 6)]
    steps: u64,
    /// Maximum number of restarts.
    #[arg(long, default_value_t = 100)]
    restarts: u64,
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
    let (restarts, steps, tolerance) = (args.restarts, args.steps, args.tolerance);
    let solver = kernel! {
        fn restarted(A: [f64; n, n], b: [f64; n]) -> z: [f64; n] {
            z[i] = 0.0;
            let rr = 1.0;
            repeat(restarts, until rr < tolerance) {
                let r[i] = b[i];
                r[i] += -A[i, j] * z[j];
                let d[i] = r[i];
                rr = r[i] * r[i];
                repeat(steps, until rr < tolerance) {
                    let before = rr;
                    let q[i] = A[i, j] * d[j];
                    let dq = d[i] * q[i];
                    z[i] = z[i] + before / dq * d[i];
                    r[i] = r[i] - before / dq * q[i];
                    rr = r[i] * r[i];
                    d[i] = r[i] + rr / before * d[i];
                }
            }
        }
    };
    vars!(i, io, ii);
    let program = solver.distribute([i], [io], [ii], &mesh).shard("A", [i.at(x)]).shard("b", [i.at(x)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        // Symmetric, and positive definite since the diagonal dominates; its elements differ by a factor of up to 10.
        let a = DistArray::from_fn(world, program.sharding("A"), |at| match *at {
            [i, j] if i == j => n as f64 * (1 + i % 10) as f64,
            [i, j] => 0.5 * f64::random(1, &[i.min(j), i.max(j)]),
            _ => unreachable!("a matrix has two indices"),
        })?;
        let b = DistArray::from_fn(world, program.sharding("b"), |at| f64::random(2, at))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let solved = prepared.run(&[&a, &b])?;
        let seconds = start.elapsed().as_secs_f64();
        let (converged, received) = (prepared.unended().is_empty(), world.bytes_received() - before);
        let error = program.verify(world, &[&a, &b], &[&solved], 1e-6)?;
        if let (Some(a), Some(b), Some(solved)) = (a.gather(world)?, b.gather(world)?, solved.gather(world)?) {
            let end = if converged { "converged" } else { "stopped" };
            println!("{end} after {seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let row = |i: usize| b[[i]] - (0..n).map(|j| a[[i, j]] * solved[[j]]).sum::<f64>();
            let residual = (0..n).map(|i| row(i).abs()).max_by(f64::total_cmp).unwrap_or(0.0);
            println!("largest residual, computed from A and z: {residual:e}");
            let is_wrong = residual.is_nan() || converged && residual > 10.0 * args.tolerance.sqrt();
            return Ok(is_wrong.then(|| format!("{end}, but the residual is {residual:e}")));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}
