//! PUMMA: panels of B are broadcast along columns, panels of A shift by one rank along rows.
//!
//! J. Choi, J. Dongarra and D. Walker, "PUMMA: Parallel Universal Matrix Multiplication Algorithms on
//! Distributed Memory Concurrent Computers", Concurrency: Practice and Experience 6(7), 1994. Schedule after
//! Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example pumma -- --mesh 3x3 --explain
//! mpirun -n 4 target/release/examples/pumma
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// C = A·B by PUMMA, Choi, Dongarra and Walker 1994.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example pumma -- --mesh x=3,y=3 --explain
  mpirun -n 4 target/release/examples/pumma --size 50,30,70")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Extents m, k and n; the mesh need not divide them.
    #[arg(long, value_name = "M,K,N", value_delimiter = ',', default_value = "512,2048,1024")]
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
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn pumma(A: [f32; rows, inner], B: [f32; inner, columns]) -> C: [f32; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    // As many steps as A has panels: each panel passes all ranks of its row once.
    let pumma = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, y.extent)
        .reorder([mo, no, ko, mi, ni, ki])
        .rotate(ko, [no])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
        .tensorize([mi, ni, ki]);
    let program = pumma.lower()?;
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
