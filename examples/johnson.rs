//! The 3-D algorithm: A and B are broadcast from two faces of a cube of ranks, and C is reduced onto a third.
//!
//! R. Agarwal, S. Balle, F. Gustavson, M. Joshi and P. Palkar, "A three-dimensional approach to parallel matrix
//! multiplication", IBM Journal of Research and Development 39(5), 1995, after S. L. Johnsson, 1993. Schedule after Yadav,
//! Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example johnson -- --mesh 2x2x2 --explain
//! mpirun -n 8 target/release/examples/johnson --size 500,300,700
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// C = A·B by the 3-D algorithm of Agarwal et al. 1995.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example johnson -- --mesh 2x2x2 --explain
  mpirun -n 8 target/release/examples/johnson --size 50,30,70")]
struct Args {
    /// Ranks along x, y and z, as 2x2x2 [default: 2x2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y", "z"]))]
    mesh: Option<Mesh>,
    /// Extents m, k and n; the mesh need not divide them.
    #[arg(long, value_name = "M,K,N", value_delimiter = ',', default_value = "384,256,320")]
    size: Vec<usize>,
    /// Write C to this `.npy` file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[rows, inner, columns] = &args.size[..] else {
        return Err("`--size` takes m, k and n, such as 50,30,70".into());
    };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y", "z"], launched_ranks().unwrap_or(8)));
    let [x, y, z] = mesh.axes();
    let matmul = kernel! {
        fn johnson(A: [f32; rows, inner], B: [f32; inner, columns]) -> C: [f32; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let johnson = matmul
        .distribute([m, n, k], [mo, no, ko], [mi, ni, ki], &mesh)
        .shard("A", [m.at(x), k.at(z), pin(y, 0)])
        .shard("B", [k.at(z), n.at(y), pin(x, 0)])
        .shard("C", [m.at(x), n.at(y), pin(z, 0)])
        .tensorize([mi, ni, ki]);
    let program = johnson.lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index))?;
        let b = DistArray::from_fn(world, program.sharding("B"), |index| f32::random(2, index))?;
        let start = Instant::now();
        let c = program.run(world, &[&a, &b])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        if let Some(out) = &args.out {
            c.to_npy(world, out)?;
        }
        let error = program.verify(world, &[&a, &b], &[&c], 1e-4)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
