//! Lloyd's algorithm: each point joins the cluster whose centre is nearest, and each centre becomes the mean of its
//! points, until no centre moves.
//!
//! Each rank owns rows of the points and finds their clusters, while all ranks have the centres. A round all-reduces
//! the number of points of each cluster and their sum. All ranks have the same bits of these, so all end together. A
//! cluster without points keeps its centre. S. Lloyd, "Least squares quantization in PCM", IEEE Transactions on
//! Information Theory 28(2), 1982.
//!
//! ```text
//! cargo run --release --example kmeans -- --explain
//! mpirun -n 6 target/release/examples/kmeans --size 2000,12,5
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::ndarray::{Array2, ArrayD, ArrayView1, Ix2};
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Clusters of points in rows over a line of ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example kmeans -- --explain
  mpirun -n 6 target/release/examples/kmeans --size 2000,12,5")]
struct Args {
    /// Ranks [default: 4; under an MPI launcher, as many as it started].
    #[arg(long)]
    mesh: Option<usize>,
    /// Points, clusters, and coordinates of each point, at least 1; the mesh need not divide them.
    #[arg(long, value_name = "POINTS,CLUSTERS,COORDINATES", value_delimiter = ',', default_value = "1000,8,3")]
    size: Vec<usize>,
    /// Maximum number of rounds, at least 1.
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
    let &[n, k, d] = &args.size[..] else {
        return Err("`--size` takes points, clusters and coordinates, such as 2000,12,5".into());
    };
    let mesh = Mesh::new([("x", args.mesh.or(launched_ranks()).unwrap_or(4))]);
    let [x] = mesh.axes();
    let steps = args.steps;
    let kmeans = kernel! {
        fn kmeans(X: [f64; n, d], C: [f64; k, d]) -> (C, own: [f64; n]) {
            let least: [f64; n];
            repeat(steps, until moved == 0.0) {
                let D[i, c] = (X[i, f] - C[c, f]) * (X[i, f] - C[c, f]);
                (least[i], own[i]) argmin= (D[i, c], c);
                let N[c] = if own[i] == c { 1.0 } else { 0.0 };
                let S[c, f] = if own[i] == c { X[i, f] } else { 0.0 };
                let before[c, f] = C[c, f];
                C[c, f] = if N[c] > 0.0 { S[c, f] / N[c] } else { before[c, f] };
                let moved = abs(C[c, f] - before[c, f]);
            }
        }
    };
    vars!(i, io, ii);
    let program = kmeans.distribute([i], [io], [ii], &mesh).shard("X", [i.at(x)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        let points = DistArray::from_fn(world, program.sharding("X"), |at| f64::random(1, at))?;
        let begin = DistArray::from_fn(world, program.sharding("C"), |at| f64::random(2, at))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let results = prepared.run_all(&[&points, &begin])?;
        let seconds = start.elapsed().as_secs_f64();
        let (rounds, received) = (prepared.rounds()[0], world.bytes_received() - before);
        let results: Vec<_> = results.iter().map(|(_, array)| array).collect();
        let error = program.verify(world, &[&points, &begin], &results, 1e-9)?;
        let arrays = [&points, &begin, results[0], results[1]].map(|array| array.gather(world));
        let [points, begin, centres, own] = arrays;
        if let [Some(points), Some(begin), Some(centres), Some(own)] = [points?, begin?, centres?, own?] {
            println!("{seconds:.6} s, {rounds} rounds, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let (expected, clusters) = lloyd(&points, &begin, rounds);
            let distances = centres.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
            let distance = distances.max_by(f64::total_cmp).unwrap_or(0.0);
            let others = own.iter().zip(&clusters).filter(|(found, expected)| **found != **expected as f64).count();
            println!("largest distance from the centres of plain loops: {distance:e}");
            // A mean of up to `n` numbers rounds as often, and ranks add them in another order. This moves no point into
            // another cluster, unless two centres are as close to it as that.
            let is_wrong = distance.is_nan() || distance > (n + 4) as f64 * f64::EPSILON || others > 0;
            return Ok(is_wrong.then(|| {
                format!("centres of plain loops differ by {distance:e}, and {others} points are in other clusters")
            }));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}

/// The centres after this many rounds, and the cluster that each point was in during the last.
fn lloyd(points: &ArrayD<f64>, begin: &ArrayD<f64>, rounds: u64) -> (Array2<f64>, Vec<usize>) {
    let mut centres = begin.clone().into_dimensionality::<Ix2>().expect("`C` has two dimensions");
    let squared = |point: ArrayView1<'_, f64>, centre: ArrayView1<'_, f64>| {
        point.iter().zip(centre).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()
    };
    let mut own = Vec::new();
    for _ in 0..rounds {
        let nearest = |point| {
            let distances = centres.outer_iter().map(|centre| squared(point, centre)).enumerate();
            distances.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(c, _)| c)
        };
        own = points.rows().into_iter().map(nearest).collect();
        for (c, mut centre) in centres.outer_iter_mut().enumerate() {
            let members = || points.rows().into_iter().zip(&own).filter(|(_, own)| **own == c).map(|(point, _)| point);
            let count = members().count();
            if count > 0 {
                centre.iter_mut().enumerate().for_each(|(f, coordinate)| {
                    *coordinate = members().map(|point| point[f]).sum::<f64>() / count as f64;
                });
            }
        }
    }
    (centres, own)
}
