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
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Y[p, q, r] = sum of X[i, j, k]·A[i, p]·B[j, q]·C[k, r], as a sequence of three products.
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
    vars!(i, j, k, p, q, r, io, jo, ko, po, qo, ii, ji, ki, pi, qi);
    let along_i = kernel! {
        fn along_i(X: [f32; d0, d1, d2], A: [f32; d0, r0]) -> U: [f32; r0, d1, d2] { U[p, j, k] += X[i, j, k] * A[i, p] }
    };
    let along_i = along_i
        .distribute([i, j, k], [io, jo, ko], [ii, ji, ki], &mesh)
        .shard("X", [i.at(x), j.at(y), k.at(z)])
        .shard("A", [i.at(x).at([y, z])])
        .shard("U", [p.at(x), j.at(y), k.at(z)])
        .tensorize([p, ji, ki, ii]);
    let along_j = kernel! {
        fn along_j(U: [f32; r0, d1, d2], B: [f32; d1, r1]) -> V: [f32; r0, r1, d2] { V[p, q, k] += U[p, j, k] * B[j, q] }
    };
    let along_j = along_j
        .distribute([p, j, k], [po, jo, ko], [pi, ji, ki], &mesh)
        .shard("U", [p.at(x), j.at(y), k.at(z)])
        .shard("B", [j.at(y).at([x, z])])
        .shard("V", [p.at(x), q.at(y), k.at(z)])
        .tensorize([pi, q, ki, ji]);
    let along_k = kernel! {
        fn along_k(V: [f32; r0, r1, d2], C: [f32; d2, r2]) -> Y: [f32; r0, r1, r2] { Y[p, q, r] += V[p, q, k] * C[k, r] }
    };
    let along_k = along_k
        .distribute([p, q, k], [po, qo, ko], [pi, qi, ki], &mesh)
        .shard("V", [p.at(x), q.at(y), k.at(z)])
        .shard("C", [k.at(z).at([x, y])])
        .shard("Y", [p.at(x), q.at(y), r.at(z)])
        .tensorize([pi, qi, r, ki]);
    let stages = [along_i.lower()?, along_j.lower()?, along_k.lower()?];
    if args.explain {
        polyshard::exit(0, stages.map(|stage| stage.explain()).join("\n"));
    }
    let [first, second, third] = &stages;
    let sequence = Sequence::new().stage(first, ["X", "A"], "U").stage(second, ["U", "B"], "V");
    let tucker = sequence.stage(third, ["V", "C"], "Y").build()?;

    polyshard::spmd(mesh.size(), |world| {
        let x = DistArray::from_fn(world, tucker.sharding("X"), |index| f32::random(1, index))?;
        let a = DistArray::from_fn(world, tucker.sharding("A"), |index| f32::random(2, index))?;
        let b = DistArray::from_fn(world, tucker.sharding("B"), |index| f32::random(3, index))?;
        let c = DistArray::from_fn(world, tucker.sharding("C"), |index| f32::random(4, index))?;
        let start = Instant::now();
        let y = tucker.run(world, &[&x, &a, &b, &c])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        let error = tucker.verify(world, &[&x, &a, &b, &c], &[&y], 1e-4)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
