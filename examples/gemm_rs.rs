//! GEMM-ReduceScatter: every rank multiplies its columns of A with its rows of B, and the partial sums of C are summed,
//! one panel of columns after another, and scattered to the ranks that own its rows.
//!
//! The second product of a tensor-parallel layer. With `--ring` the partial sums are shifted around a ring: each rank
//! adds its term to the rows that it receives from its neighbour, and the last one keeps them. Schedule after Yadav,
//! Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example gemm_rs -- --ring --explain
//! mpirun -n 4 target/release/examples/gemm_rs --size 500,300,700
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// C = A·B with A in columns, B and C in rows; the sums in C are reduce-scattered panel by panel.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example gemm_rs -- --ring --explain
  mpirun -n 4 target/release/examples/gemm_rs --size 50,30,70")]
struct Args {
    /// Shift the sums from rank to rank, instead of a reduce-scatter for each panel.
    #[arg(long)]
    ring: bool,
    /// Ranks along x, as 4 [default: 4; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x"]))]
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
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x"], launched_ranks().unwrap_or(4)));
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn gemm_rs(A: [f32; rows, inner], B: [f32; inner, columns]) -> C: [f32; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let gemm_rs =
        matmul.distribute([k], [ko], [ki], &mesh).shard("A", [k.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
    let gemm_rs = if args.ring {
        // Each rank begins with the rows of a different rank, so that all partial sums are in flight at once.
        let rows = gemm_rs.divide(m, mo, mi, x.extent).reorder([mo, mi, n, ki]).rotate(mo, [ko]);
        rows.communicate("C", mo).tensorize([mi, n, ki])
    } else {
        let panels = gemm_rs.divide(n, no, ni, x.extent).reorder([no, m, ni, ki]);
        panels.communicate("C", no).tensorize([m, ni, ki])
    };
    let program = gemm_rs.lower()?;
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
