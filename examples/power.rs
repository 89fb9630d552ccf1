//! Power iteration: a vector that is repeatedly multiplied by a symmetric matrix and normalised converges to the
//! eigenvector of the eigenvalue of largest magnitude.
//!
//! Each rank owns rows of the matrix, which never move. A round gathers the vector, and all-reduces two sums: the
//! square of its length, and by how much the round changes it. The latter ends the rounds, and has the same bits on all
//! ranks, so all end together.
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
    /// Stop when a round changes the vector by less than this, in the sum over its elements.
    #[arg(long, default_value_t = 1e-12)]
    tolerance: f64,
    /// Maximum number of rounds.
    #[arg(long, default_value_t = 1000)]
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
    let (steps, tolerance) = (args.steps, args.tolerance);
    let power = kernel! {
        fn power(M: [f64; n, n], v: [f64; n]) -> v {
            repeat(steps, until change < tolerance) {
                let y[i] = M[i, j] * v[j];
                let s = y[i] * y[i];
                let change = abs(y[i] / sqrt(s) - v[i]);
                v[i] = y[i] / sqrt(s);
            }
        }
    };
    vars!(i, io, ii);
    let program = power.distribute([i], [io], [ii], &mesh).shard("M", [i.at(x)]).shard("v", [i.at(x)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        // A symmetric matrix with well-separated eigenvalues: all are positive, and one is about the sum of the others.
        let matrix = DistArray::from_fn(world, program.sharding("M"), |at| {
            1.0 + if at[0] == at[1] { (at[0] % 7) as f64 / 10.0 } else { 0.0 }
        })?;
        let begin = DistArray::from_fn(world, program.sharding("v"), |at| 1.0 + (at[0] % 3) as f64)?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let vector = prepared.run(&[&matrix, &begin])?;
        let seconds = start.elapsed().as_secs_f64();
        let (rounds, received) = (prepared.rounds()[0], world.bytes_received() - before);
        let error = program.verify(world, &[&matrix, &begin], &[&vector], 1e-9)?;
        if let (Some(matrix), Some(vector)) = (matrix.gather(world)?, vector.gather(world)?) {
            // The length of the product with a vector of length 1 is the eigenvalue.
            let product: Vec<f64> = (0..n).map(|i| (0..n).map(|j| matrix[[i, j]] * vector[[j]]).sum()).collect();
            let eigenvalue = product.iter().map(|element| element * element).sum::<f64>().sqrt();
            println!("{seconds:.6} s, {rounds} rounds, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let rows = product.iter().zip(&vector).map(|(product, element)| (product - eigenvalue * element).abs());
            let residual = rows.max_by(f64::total_cmp).unwrap_or(0.0);
            println!("largest residual of the eigenvector for {eigenvalue:.9}: {residual:e}");
            // Rounding adds to the change of the last round.
            let allowed = (args.tolerance + 1e-12) * eigenvalue;
            let is_wrong = residual.is_nan() || rounds < args.steps && residual > allowed;
            return Ok(
                is_wrong.then(|| format!("the residual of the eigenvector is {residual:e} after {rounds} rounds"))
            );
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}
