//! Attention of several heads: O = softmax(Q·Kᵀ / sqrt(depth))·V, the softmax over the keys.
//!
//! Each rank owns the queries, keys and values of a part of the sequence, for all heads. Without flags, keys and values
//! are gathered. If the scores do not fit in a cache, the statements share a pass over memory, and only the scores and
//! weights of a few rows exist at a time. A. Vaswani et al., "Attention is all you need", NeurIPS 2017.
//!
//! With `--ring`, blocks of keys and values travel around the ranks, and the next ones arrive while a rank computes. A
//! rank never has more than the scores of its queries with one block of keys: a running reduction keeps the largest
//! score, the sum of the weights and the weighted sum of the values so far. H. Liu, M. Zaharia and P. Abbeel, "Ring
//! attention with blockwise transformers for near-infinite context", arXiv 2310.01889.
//!
//! ```text
//! cargo run --release --example attention -- --explain
//! mpirun -n 6 target/release/examples/attention --ring --causal --size 4,150,100,32
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::ndarray::{ArrayD, ArrayView1};
use polyshard::prelude::*;
use polyshard::schedule::Block;
use std::error::Error;
use std::time::Instant;

/// Attention of several heads, in rows of queries over a line of ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example attention -- --explain
  mpirun -n 6 target/release/examples/attention --ring --causal --size 4,150,100,32")]
struct Args {
    /// Ranks [default: 4; under an MPI launcher, as many as it started].
    #[arg(long)]
    mesh: Option<usize>,
    /// Heads, queries, keys, and the length of each query, key and value, at least 1; the mesh need not divide them.
    #[arg(long, value_name = "HEADS,QUERIES,KEYS,DEPTH", value_delimiter = ',', default_value = "4,200,200,16")]
    size: Vec<usize>,
    /// Send keys and values around a ring of ranks instead of gathering them.
    #[arg(long)]
    ring: bool,
    /// Let query `i` see the keys 0 to `i` only.
    #[arg(long)]
    causal: bool,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[heads, queries, keys, depth] = &args.size[..] else {
        return Err("`--size` takes heads, queries, keys and depth, such as 4,150,100,32".into());
    };
    let mesh = Mesh::new([("x", args.mesh.or(launched_ranks()).unwrap_or(4))]);
    let [x] = mesh.axes();
    vars!(h, i, j, io, ii, jo, ji);
    let sizes = [heads, queries, keys, depth];
    let written = if args.ring { running(sizes, args.causal) } else { attention(sizes, args.causal) };
    let in_rows = written.distribute([i], [io], [ii], &mesh);
    let in_rows = in_rows.shard("Q", [i.at(x)]).shard("K", [j.at(x)]).shard("V", [j.at(x)]);
    let program = if args.ring {
        let ring = in_rows.divide(j, jo, ji, mesh.size()).reorder([jo, h, ii]).rotate(jo, [io]);
        ring.together(["S", "A"], jo).communicate("K", jo).communicate("V", jo).pipeline(jo, 1).lower()?
    } else {
        in_rows.lower()?
    };
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        let q = DistArray::from_fn(world, program.sharding("Q"), |at| f32::random(1, at))?;
        let k = DistArray::from_fn(world, program.sharding("K"), |at| f32::random(2, at))?;
        let v = DistArray::from_fn(world, program.sharding("V"), |at| f32::random(3, at))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let out = prepared.run(&[&q, &k, &v])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
        let error = program.verify(world, &[&q, &k, &v], &[&out], 1e-4)?;
        let arrays = [q.gather(world)?, k.gather(world)?, v.gather(world)?, out.gather(world)?];
        if let [Some(q), Some(k), Some(v), Some(out)] = arrays {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let distance = distance(&out, [&q, &k, &v], args.causal);
            println!("largest distance from weighted means in f64: {distance:e}");
            // Scaled scores are sums of `depth` terms and at most sqrt(depth). Their rounding errors are the relative
            // errors of the weights, to which a sum over `keys` adds its own. A running reduction also scales what it has
            // whenever it finds a larger score.
            let per_key = if args.ring { 4.0 } else { 1.0 };
            let roundings = (depth + 4) as f64 * (depth as f64).sqrt() + per_key * (keys + 4) as f64;
            let allowed = roundings * f64::from(f32::EPSILON);
            // NaN is above all numbers in this order.
            let is_wrong = distance.total_cmp(&allowed).is_gt();
            return Ok(is_wrong.then(|| format!("weighted means in f64 differ by {distance:e}, more than {allowed:e}")));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}

/// The statements, without a schedule. The largest score of a row is subtracted, so that no weight overflows.
fn attention([heads, queries, keys, depth]: [usize; 4], causal: bool) -> Schedule<Block> {
    let (scale, causal) = (1.0 / (depth as f32).sqrt(), f32::from(causal));
    kernel! {
        fn attention(Q: [f32; heads, queries, depth], K: [f32; heads, keys, depth], V: [f32; heads, keys, depth])
            -> O: [f32; heads, queries, depth] {
            let S[h, i, j] = scale * Q[h, i, c] * K[h, j, c];
            let M[h, i] max= if causal > 0.0 && j > i { -inf } else { S[h, i, j] };
            let P[h, i, j] = if causal > 0.0 && j > i { 0.0 } else { exp(S[h, i, j] - M[h, i]) };
            let L[h, i] = P[h, i, j];
            O[h, i, c] = P[h, i, j] * V[h, j, c];
            O[h, i, c] = O[h, i, c] / L[h, i];
        }
    }
}

/// The same with a running reduction, for which one block of keys after the other is enough.
fn running([heads, queries, keys, depth]: [usize; 4], causal: bool) -> Schedule<Block> {
    let (scale, causal) = (1.0 / (depth as f32).sqrt(), f32::from(causal));
    kernel! {
        fn attention(Q: [f32; heads, queries, depth], K: [f32; heads, keys, depth], V: [f32; heads, keys, depth])
            -> O: [f32; heads, queries, depth] {
            let S[h, i, j] = scale * Q[h, i, c] * K[h, j, c];
            let (M[h, i], L[h, i], A[h, i, v])
                softmax= (if causal > 0.0 && j > i { -inf } else { S[h, i, j] }, 1.0, V[h, j, v]);
            O[h, i, v] = A[h, i, v] / L[h, i];
        }
    }
}

/// The largest distance of an element of `out` from the mean of the values, weighted by the exponentials of the scores.
fn distance(out: &ArrayD<f32>, [q, k, v]: [&ArrayD<f32>; 3], causal: bool) -> f64 {
    let &[_, queries, depth] = out.shape() else { unreachable!("`O` has three dimensions") };
    let of_row = |(row, found): (usize, ArrayView1<'_, f32>)| {
        let (h, i) = (row / queries, row % queries);
        let keys = 0..if causal { k.shape()[1].min(i + 1) } else { k.shape()[1] };
        let score = |j| (0..depth).map(|c| f64::from(q[[h, i, c]]) * f64::from(k[[h, j, c]])).sum::<f64>();
        let weights: Vec<(usize, f64)> = keys.map(|j| (j, (score(j) / (depth as f64).sqrt()).exp())).collect();
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mean = |c| weights.iter().map(|&(j, weight)| weight / total * f64::from(v[[h, j, c]])).sum::<f64>();
        let distances = found.iter().enumerate().map(|(c, &found)| (f64::from(found) - mean(c)).abs());
        distances.max_by(f64::total_cmp).unwrap_or(0.0)
    };
    out.rows().into_iter().enumerate().map(of_row).max_by(f64::total_cmp).unwrap_or(0.0)
}
