//! The 2.5-D algorithm: each of c layers of ranks does a part of the steps of Cannon's algorithm, and their partial
//! sums are reduced onto the first layer, which owns A and B too.
//!
//! E. Solomonik and J. Demmel, "Communication-optimal parallel 2.5D matrix multiplication and LU factorization
//! algorithms", Euro-Par 2011. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example solomonik -- --mesh 4x4x2 --explain
//! mpirun -n 8 target/release/examples/solomonik --mesh 2x2x2 --size 500,300,700
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// C = A·B by the 2.5-D algorithm of Solomonik and Demmel 2011; the mesh is q x q x c, with c layers.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example solomonik -- --mesh 4x4x2 --explain
  mpirun -n 8 target/release/examples/solomonik --mesh 2x2x2 --size 50,30,70")]
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
    let mesh = args.mesh.clone().unwrap_or_else(|| layers(launched_ranks().unwrap_or(8)));
    let [x, y, z] = mesh.axes();
    let matmul = kernel! {
        fn solomonik(A: [f32; rows, inner], B: [f32; inner, columns]) -> C: [f32; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, kb, kz, kt, ki);
    // Layer z does steps z*q/c and following of Cannon's; at least one step per layer.
    let steps = y.extent.max(z.extent);
    let layer = Mesh::new([x, y].map(|axis| (axis.name, axis.extent)));
    let solomonik = matmul
        .distribute([m, n], [mo, no], [mi, ni], &layer)
        .divide(k, kb, ki, steps)
        .rotate(kb, [mo, no])
        .distribute([kb], [kz], [kt], &Mesh::new([(z.name, z.extent)]))
        .reorder([mo, no, kz, kt, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y), pin(z, 0)])
        .shard("B", [k.at(x), n.at(y), pin(z, 0)])
        .shard("C", [m.at(x), n.at(y), pin(z, 0)])
        .communicate("A", kt)
        .communicate("B", kt)
        .tensorize([mi, ni, ki]);
    let program = solomonik.lower()?;
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

/// The largest square layers possible: q x q x c.
fn layers(ranks: usize) -> Mesh {
    let q = (1..=ranks.isqrt()).rev().find(|q| ranks.is_multiple_of(q * q)).unwrap_or(1);
    Mesh::new([("x", q), ("y", q), ("z", ranks / (q * q))])
}
