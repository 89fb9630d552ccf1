//! The core of a Tucker decomposition: a tensor times a matrix along each of its dimensions, one after the other.
//!
//! Each product is reduce-scattered along one axis of the mesh, so that the next one finds its tensor in place and
//! nothing is redistributed in between. W. Austin, G. Ballard and T. Kolda, "Parallel tensor compression for
//! large-scale scientific data", IPDPS 2016.
//!
//! ```text
//! cargo run --release --example tucker -- --mesh 2x2x2 --explain
//! mpirun -n 8 target/release/examples/tucker --size 50,40,30,8,7,6
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::ndarray::ArrayD;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Y[p, q, r] = sum of X[i, j, k]·A[i, p]·B[j, q]·C[k, r], as three products.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example tucker -- --mesh 2x2x2 --explain
  mpirun -n 8 target/release/examples/tucker --size 50,40,30,8,7,6")]
struct Args {
    /// Ranks along x, y and z, as 2x2x2 [default: 2x2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y", "z"]))]
    mesh: Option<Mesh>,
    /// Extents of i, j, k and of p, q, r; the mesh need not divide them.
    #[arg(long, value_name = "I,J,K,P,Q,R", value_delimiter = ',', default_value = "96,80,64,16,12,8")]
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
    let &[d0, d1, d2, r0, r1, r2] = &args.size[..] else {
        return Err("`--size` takes i, j, k, p, q and r, such as 50,40,30,8,7,6".into());
    };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y", "z"], launched_ranks().unwrap_or(8)));
    let [x, y, z] = mesh.axes();
    let tucker = kernel! {
        fn tucker(X: [f32; d0, d1, d2], A: [f32; d0, r0], B: [f32; d1, r1], C: [f32; d2, r2]) -> Y: [f32; r0, r1, r2] {
            let U[p, j, k] = X[i, j, k] * A[i, p];
            let V[p, q, k] = U[p, j, k] * B[j, q];
            Y[p, q, r] = V[p, q, k] * C[k, r];
        }
    };
    vars!(i, j, k, p, q, r, io, jo, ko, po, qo, ii, ji, ki, pi, qi);
    let program = tucker
        .of("U")
        .distribute([i, j, k], [io, jo, ko], [ii, ji, ki], &mesh)
        .of("V")
        .distribute([p, j, k], [po, jo, ko], [pi, ji, ki], &mesh)
        .of("Y")
        .distribute([p, q, k], [po, qo, ko], [pi, qi, ki], &mesh)
        .of_all()
        .shard("X", [i.at(x), j.at(y), k.at(z)])
        .shard("A", [i.at(x).at([y, z])])
        .shard("B", [j.at(y).at([x, z])])
        .shard("C", [k.at(z).at([x, y])])
        .shard("U", [p.at(x), j.at(y), k.at(z)])
        .shard("V", [p.at(x), q.at(y), k.at(z)])
        .shard("Y", [p.at(x), q.at(y), r.at(z)])
        .lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let wrong = polyshard::spmd(mesh.size(), |world| {
        let x = DistArray::from_fn(world, program.sharding("X"), |index| f32::random(1, index))?;
        let a = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(2, index))?;
        let b = DistArray::from_fn(world, program.sharding("B"), |index| f32::random(3, index))?;
        let c = DistArray::from_fn(world, program.sharding("C"), |index| f32::random(4, index))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let y = prepared.run(&[&x, &a, &b, &c])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
        let error = program.verify(world, &[&x, &a, &b, &c], &[&y], 1e-4)?;
        let whole = [x.gather(world)?, a.gather(world)?, b.gather(world)?, c.gather(world)?, y.gather(world)?];
        if let [Some(x), Some(a), Some(b), Some(c), Some(y)] = whole {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            // In f64, and the dimensions in the opposite order.
            let x: Vec<f64> = x.iter().map(|&element| f64::from(element)).collect();
            let without_k = along_last(&x, d0 * d1, &c);
            let without_j = along_last(&without_k, r2 * d0, &b);
            let core = along_last(&without_j, r1 * r2, &a);
            let distances = core.iter().zip(&y).map(|(core, &found)| (core - f64::from(found)).abs());
            let distance = distances.max_by(f64::total_cmp).unwrap_or(0.0);
            println!("largest distance from products in f64: {distance:e}");
            let largest = core.iter().copied().map(f64::abs).fold(0.0, f64::max);
            // NaN is above all numbers in this order.
            let is_wrong = distance.total_cmp(&(1e-4 * largest)).is_gt();
            return Ok(is_wrong.then(|| format!("products in f64 differ by {distance:e}, and are up to {largest:e}")));
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}

/// The product with a matrix along the last dimension of a tensor, of this many rows; the new dimension is the first.
fn along_last(tensor: &[f64], rows: usize, matrix: &ArrayD<f32>) -> Vec<f64> {
    let &[extent, rank] = matrix.shape() else { unreachable!("a matrix has two dimensions") };
    let mut product = Vec::with_capacity(rank * rows);
    for p in 0..rank {
        for row in 0..rows {
            let row = &tensor[row * extent..(row + 1) * extent];
            product.push(row.iter().enumerate().map(|(i, element)| element * f64::from(matrix[[i, p]])).sum());
        }
    }
    product
}
