//! Layer normalisation: each row is shifted to mean 0 and scaled to variance 1, then by weights `g` and biases `b`.
//!
//! Each rank owns rows of the matrix and a copy of the weights and biases, so nothing moves. If the rows do not fit in
//! a cache, the statements share a pass over memory. J. L. Ba, J. R. Kiros and G. Hinton, "Layer normalization", arXiv
//! 1607.06450.
//!
//! ```text
//! cargo run --release --example layernorm -- --explain
//! mpirun -n 6 target/release/examples/layernorm --size 500,70
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Layer normalisation of a matrix in row blocks over a line of ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example layernorm -- --explain
  mpirun -n 6 target/release/examples/layernorm --size 500,70")]
struct Args {
    /// Ranks [default: 4; under an MPI launcher, as many as it started].
    #[arg(long)]
    mesh: Option<usize>,
    /// Rows and columns of the matrix, at least 1; the mesh need not divide them.
    #[arg(long, value_name = "ROWS,COLUMNS", value_delimiter = ',', default_value = "300,200")]
    size: Vec<usize>,
    /// Added to the variance of each row.
    #[arg(long, default_value_t = 1e-5)]
    eps: f32,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[n, m] = &args.size[..] else { return Err("`--size` takes rows and columns, such as 500,70".into()) };
    let mesh = Mesh::new([("x", args.mesh.or(launched_ranks()).unwrap_or(4))]);
    let [x] = mesh.axes();
    let eps = args.eps;
    let layernorm = kernel! {
        fn layernorm(X: [f32; n, m], g: [f32; m], b: [f32; m]) -> Y: [f32; n, m] {
            let mean[i] = X[i, j] / m;
            let var[i] = (X[i, j] - mean[i]) * (X[i, j] - mean[i]) / m;
            Y[i, j] = (X[i, j] - mean[i]) / sqrt(var[i] + eps) * g[j] + b[j];
        }
    };
    vars!(i, io, ii);
    let program = layernorm.distribute([i], [io], [ii], &mesh).shard("X", [i.at(x)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        // Rows with different means.
        let rows = DistArray::from_fn(world, program.sharding("X"), |at| {
            0.5 * f32::random(1, at) + 0.5 * f32::random(2, &at[..1])
        })?;
        let weights = DistArray::from_fn(world, program.sharding("g"), |at| 1.0 + 0.5 * f32::random(3, at))?;
        let biases = DistArray::from_fn(world, program.sharding("b"), |at| f32::random(4, at))?;
        let inputs = [&rows, &weights, &biases];
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let normal = prepared.run(&inputs)?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
        let error = program.verify(world, &inputs, &[&normal], 1e-4)?;
        let normal = normal.gather(world)?;
        let inputs = [rows.gather(world)?, weights.gather(world)?, biases.gather(world)?];
        if let (Some(normal), [Some(rows), Some(g), Some(b)]) = (normal, inputs) {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let (mut largest, mut is_wrong) = (0.0, false);
            for (i, found) in normal.outer_iter().enumerate() {
                // In f64, and with the variance as the mean of the squares less the square of the mean.
                let row = || (0..m).map(|j| f64::from(rows[[i, j]]));
                let mean = row().sum::<f64>() / m as f64;
                let variance = row().map(|element| element * element).sum::<f64>() / m as f64 - mean * mean;
                let deviation = (variance.max(0.0) + f64::from(eps)).sqrt();
                let normalised = row().map(|element| (element - mean) / deviation);
                let distances = normalised.zip(&found).enumerate().map(|(j, (normalised, &found))| {
                    (normalised * f64::from(g[[j]]) + f64::from(b[[j]]) - f64::from(found)).abs()
                });
                let distance = distances.max_by(f64::total_cmp).unwrap_or(0.0);
                // Sums in f32 of `m` numbers up to 1 round `m` times, and the division by the deviation scales this.
                let allowed = f64::from(f32::EPSILON) * (m + 8) as f64 * (1.0 + 1.0 / deviation);
                // NaN is above all numbers in this order.
                is_wrong |= distance.total_cmp(&allowed).is_gt();
                largest = distance.max(largest);
            }
            println!("largest distance from rows normalised in f64: {largest:e}");
            return Ok(is_wrong.then(|| format!("rows normalised in f64 differ by up to {largest:e}")));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}
