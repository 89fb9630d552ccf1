//! Conjugate gradients on the Laplacian of a rectangle whose edges are held at 0: solves L X = B (M. Hestenes and E. Stiefel,
//! "Methods of conjugate gradients for solving linear systems", 1952).
//!
//! The solver is one block of statements. Each round computes one product with L, whose halo fetches the rims of
//! neighbours' blocks, two inner products, and three updates. Arrays that a round passes to the next one are renamed,
//! not copied. The sum that ends the rounds has the same bits on all ranks, so all end together.
//!
//! ```text
//! cargo run --release --example cg -- --explain
//! mpirun -n 6 target/release/examples/cg --size 50,70
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::ndarray::ArrayD;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Conjugate gradients on the Laplacian of a rectangle.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example cg -- --explain
  mpirun -n 6 target/release/examples/cg --size 50,70")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Points of the grid in each dimension, at least 1; the mesh need not divide them.
    #[arg(long, value_name = "ROWS,COLUMNS", value_delimiter = ',', default_value = "60,50")]
    size: Vec<usize>,
    /// Stop when the square of the residual is below this.
    #[arg(long, default_value_t = 1e-16)]
    tolerance: f64,
    /// Maximum number of rounds.
    #[arg(long, default_value_t = 10_000)]
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
    let &[rows, columns] = &args.size[..] else { return Err("`--size` takes rows and columns, such as 50,70".into()) };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    let (rounds, tolerance) = (args.rounds, args.tolerance);
    let solver = kernel! {
        fn cg(B: [f64; rows, columns]) -> X: [f64; rows, columns] {
            X[i, j] = 0.0;
            let R[i, j] = B[i, j];
            let D[i, j] = B[i, j];
            let rr = R[i, j] * R[i, j];
            repeat(rounds, until rr < tolerance) {
                let before = rr;
                let Q[i, j] = 4.0 * D[i, j] - (D[i - 1, j] else 0.0) - (D[i + 1, j] else 0.0)
                    - (D[i, j - 1] else 0.0) - (D[i, j + 1] else 0.0);
                let dq = D[i, j] * Q[i, j];
                X[i, j] = X[i, j] + before / dq * D[i, j];
                R[i, j] = R[i, j] - before / dq * Q[i, j];
                rr = R[i, j] * R[i, j];
                D[i, j] = R[i, j] + rr / before * D[i, j];
            }
        }
    };
    vars!(i, j, io, ii, jo, ji);
    // All matrices lie like B; every rank has the scalars.
    let program = solver.distribute([i, j], [io, jo], [ii, ji], &mesh).shard("B", [i.at(x), j.at(y)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        let b = DistArray::from_fn(world, program.sharding("B"), |index| f64::random(1, index))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let solved = prepared.run(&[&b])?;
        let seconds = start.elapsed().as_secs_f64();
        let (rounds, received) = (prepared.rounds()[0], world.bytes_received() - before);
        let error = program.verify(world, &[&b], &[&solved], 1e-6)?;
        let (solved, b) = (solved.gather(world)?, b.gather(world)?);
        if let (Some(solved), Some(b)) = (solved, b) {
            println!("{seconds:.6} s, {rounds} rounds, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let residual = residual(&solved, &b);
            println!("largest residual, computed from L and X: {residual:e}");
            let is_wrong = residual.is_nan() || rounds < args.rounds && residual > 10.0 * args.tolerance.sqrt();
            return Ok(is_wrong.then(|| format!("the residual is {residual:e} after {rounds} rounds")));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}

/// The largest element of B - L X.
fn residual(x: &ArrayD<f64>, b: &ArrayD<f64>) -> f64 {
    let at = |i: usize, j: usize| x.get([i, j]).copied().unwrap_or(0.0);
    let of = |((i, j), b): ((usize, usize), f64)| {
        // Before the first index comes one that wraps to the largest, which is outside.
        let around = at(i.wrapping_sub(1), j) + at(i + 1, j) + at(i, j.wrapping_sub(1)) + at(i, j + 1);
        (b - (4.0 * at(i, j) - around)).abs()
    };
    b.indexed_iter().map(|(index, &b)| of(((index[0], index[1]), b))).max_by(f64::total_cmp).unwrap_or(0.0)
}
