//! AllGather-GEMM: every rank computes its rows of C from its columns of A and, panel by panel, all of B.
//!
//! The product of a tensor-parallel layer: A and B are sharded along m and n, and B is gathered while it is
//! multiplied. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example ag_gemm -- --mesh 3 --size 50,30,70
//! mpirun -n 4 target/release/examples/ag_gemm
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// C = transposed A·B with B all-gathered panel by panel.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example ag_gemm -- --mesh 3 --size 50,30,70
  mpirun -n 4 target/release/examples/ag_gemm --size 50,30,70")]
struct Args {
    /// Ranks along x, as 4 [default: 4; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x"]))]
    mesh: Option<Mesh>,
    /// Extents m, k and n; the mesh need not divide them.
    #[arg(long, value_name = "M,K,N", value_delimiter = ',', default_value = "1024,512,2048")]
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
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x"], launched_ranks().unwrap_or(4)));
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn ag_gemm(A: [f32; inner, rows], B: [f32; inner, columns]) -> C: [f32; rows, columns] {
            C[m, n] += A[k, m] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni);
    let ag_gemm = matmul
        .distribute([m], [mo], [mi], &mesh)
        .divide(n, no, ni, x.extent)
        .reorder([mo, no, mi, ni, k])
        .shard("A", [m.at(x)])
        .shard("B", [n.at(x)])
        .shard("C", [m.at(x)])
        .communicate("B", no)
        .tensorize([mi, ni, k]);
    let program = ag_gemm.lower()?;
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
