//! A perceptron of two layers with biases and ReLU, forward and backward: Y = max(X·V + b, 0)·W + d, and from the
//! gradient G of a loss with respect to Y those with respect to both weights.
//!
//! Each rank owns a part of the batch, as rows of X and G, and a copy of the weights. Nothing moves in the forward
//! direction; the gradients of the weights are sums over the batch, which are all-reduced.
//!
//! ```text
//! cargo run --release --example mlp -- --explain
//! mpirun -n 6 target/release/examples/mlp --size 500,70,40,10
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::ndarray::ArrayD;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// A perceptron of two layers and the gradients of its weights, in rows of samples over a line of ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example mlp -- --explain
  mpirun -n 6 target/release/examples/mlp --size 500,70,40,10")]
struct Args {
    /// Ranks [default: 4; under an MPI launcher, as many as it started].
    #[arg(long)]
    mesh: Option<usize>,
    /// Samples, inputs, hidden units and outputs, all at least 1; the mesh need not divide them.
    #[arg(long, value_name = "BATCH,IN,HIDDEN,OUT", value_delimiter = ',', default_value = "200,60,80,10")]
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
    let &[n, a, h, c] = &args.size[..] else {
        return Err("`--size` takes batch, in, hidden and out, such as 500,70,40,10".into());
    };
    let mesh = Mesh::new([("x", args.mesh.or(launched_ranks()).unwrap_or(4))]);
    let [x] = mesh.axes();
    let mlp = kernel! {
        fn mlp(X: [f64; n, a], V: [f64; a, h], b: [f64; h], W: [f64; h, c], d: [f64; c], G: [f64; n, c])
            -> (Y: [f64; n, c], dV: [f64; a, h], dW: [f64; h, c]) {
            let P[i, k] = X[i, f] * V[f, k];
            let H[i, k] = max(P[i, k] + b[k], 0.0);
            Y[i, o] = H[i, k] * W[k, o];
            Y[i, o] = Y[i, o] + d[o];
            dW[k, o] = H[i, k] * G[i, o];
            let E[i, k] = G[i, o] * W[k, o];
            let F[i, k] = if H[i, k] > 0.0 { E[i, k] } else { 0.0 };
            dV[f, k] = X[i, f] * F[i, k];
        }
    };
    vars!(i, io, ii);
    let program = mlp.distribute([i], [io], [ii], &mesh).shard("X", [i.at(x)]).shard("G", [i.at(x)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        let inputs = ["X", "V", "b", "W", "d", "G"].into_iter().zip(1..);
        let input = |(name, seed)| DistArray::from_fn(world, program.sharding(name), |at| f64::random(seed, at));
        let inputs = inputs.map(input).collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<&DistArray<f64>> = inputs.iter().collect();
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let results = prepared.run_named(&inputs, ["Y", "dV", "dW"])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
        let error = program.verify(world, &inputs, &results.each_ref(), 1e-9)?;
        let whole =
            inputs.into_iter().chain(&results).map(|array| array.gather(world)).collect::<Result<Vec<_>, _>>()?;
        let whole: Option<Vec<ArrayD<f64>>> = whole.into_iter().collect();
        if let Some([x, v, b, w, d, g, y, dv, dw]) = whole.as_deref() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let expected = by_samples([x, v, b, w, d, g]);
            let results = [y, dv, dw].into_iter().flatten().zip(expected.iter().flatten());
            let distances = results.map(|(found, expected)| (found - expected).abs());
            let distance = distances.max_by(f64::total_cmp).unwrap_or(0.0);
            println!("largest distance from one sample at a time: {distance:e}");
            // All inputs are between -1 and 1: bounds on the results, and on the roundings in the sums of one.
            let (bound, roundings) = ((a + 2) * (h + n) + n * c, n + a + h + c);
            let allowed = f64::EPSILON * bound as f64 * roundings as f64;
            // NaN is above all numbers in this order.
            let is_wrong = distance.total_cmp(&allowed).is_gt();
            return Ok(is_wrong.then(|| format!("one sample at a time gives results that differ by {distance:e}")));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}

/// Y, dV and dW, computed by backpropagation of one sample after the other.
fn by_samples([x, v, b, w, d, g]: [&ArrayD<f64>; 6]) -> [ArrayD<f64>; 3] {
    let [mut y, mut dv, mut dw] = [g, v, w].map(|like| ArrayD::zeros(like.shape()));
    for i in 0..x.shape()[0] {
        for o in 0..d.len() {
            y[[i, o]] = d[[o]];
        }
        for k in 0..b.len() {
            let unit = b[[k]] + (0..v.shape()[0]).map(|f| x[[i, f]] * v[[f, k]]).sum::<f64>();
            if unit <= 0.0 {
                continue;
            }
            let mut gradient = 0.0;
            for o in 0..d.len() {
                y[[i, o]] += unit * w[[k, o]];
                dw[[k, o]] += unit * g[[i, o]];
                gradient += w[[k, o]] * g[[i, o]];
            }
            for f in 0..v.shape()[0] {
                dv[[f, k]] += gradient * x[[i, f]];
            }
        }
    }
    [y, dv, dw]
}
