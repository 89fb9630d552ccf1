//! MTTKRP, a matricized tensor times a Khatri-Rao product, the kernel of CP decompositions: the tensor stays in place,
//! the factors are gathered, and the result is reduce-scattered.
//!
//! G. Ballard, N. Knight and K. Rouse, "Communication lower bounds for matricized tensor times Khatri-Rao product", IPDPS
//! 2018. If the rank of the decomposition is large, the first axis of the mesh cuts it, and the tensor moves too.
//!
//! ```text
//! cargo run --release --example mttkrp -- --mesh 1x2x2x2 --explain
//! mpirun -n 8 target/release/examples/mttkrp --size 50,40,30,8
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// B[i, r] = sum of X[i, j, k]·C[j, r]·D[k, r]; the axes of the mesh divide r, i, j and k.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example mttkrp -- --mesh 1x2x2x2 --explain
  mpirun -n 8 target/release/examples/mttkrp --size 50,40,30,8")]
struct Args {
    /// Ranks along p, x, y and z, as 1x2x2x2 [default: 1x2x2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["p", "x", "y", "z"]))]
    mesh: Option<Mesh>,
    /// Extents of i, j, k and r; the mesh need not divide them.
    #[arg(long, value_name = "I,J,K,R", value_delimiter = ',', default_value = "96,80,64,16")]
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
    let &[first, second, third, rank] = &args.size[..] else {
        return Err("`--size` takes i, j, k and r, such as 50,40,30,8".into());
    };
    let mesh = args.mesh.clone().unwrap_or_else(|| stationary(launched_ranks().unwrap_or(8)));
    let [p, x, y, z] = mesh.axes();
    let kernel = kernel! {
        fn mttkrp(X: [f32; first, second, third], C: [f32; second, rank], D: [f32; third, rank]) -> B: [f32; first, rank] {
            B[i, r] += X[i, j, k] * C[j, r] * D[k, r]
        }
    };
    vars!(i, j, k, r, io, jo, ko, ro, ii, ji, ki, ri);
    let mttkrp = kernel
        .distribute([r, i, j, k], [ro, io, jo, ko], [ri, ii, ji, ki], &mesh)
        .shard("X", [i.at(x).at(p), j.at(y), k.at(z)])
        .shard("C", [j.at(y).at([x, z]), r.at(p)])
        .shard("D", [k.at(z).at([x, y]), r.at(p)])
        .shard("B", [i.at(x).at([y, z]), r.at(p)])
        .tensorize([ii, ri, ji, ki]);
    let program = mttkrp.lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        let x = DistArray::from_fn(world, program.sharding("X"), |index| f32::random(1, index))?;
        let c = DistArray::from_fn(world, program.sharding("C"), |index| f32::random(2, index))?;
        let d = DistArray::from_fn(world, program.sharding("D"), |index| f32::random(3, index))?;
        let start = Instant::now();
        let b = program.run(world, &[&x, &c, &d])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        let error = program.verify(world, &[&x, &c, &d], &[&b], 1e-4)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}

/// A mesh on which the tensor stays in place: nothing is cut along r.
fn stationary(ranks: usize) -> Mesh {
    Mesh::new([("p", 1)]).product(&Mesh::balanced(["x", "y", "z"], ranks)).expect("the names differ")
}
