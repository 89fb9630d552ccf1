//! GEMM-ReduceScatter: every rank multiplies its columns of A with its rows of B, and the terms of C, a panel of columns at a
//! time, are summed and scattered to the ranks that own its rows.
//!
//! The second product of a tensor-parallel layer. With `--ring` the sums travel: each rank adds its term to the rows that
//! its neighbour hands it, and the last one keeps them. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example gemm_rs -- --ring --print explain
//! mpirun -n 4 target/release/examples/gemm_rs --size 500,300,700
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, balanced, flops, with_type};
use std::process::ExitCode;

/// C = A·B with A by columns, B by rows and C by rows, which is summed panel by panel.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example gemm_rs -- --ring --print explain
  mpirun -n 4 target/release/examples/gemm_rs --size 50,30,70")]
struct Arguments {
    /// The sums travel from rank to rank, instead of being reduced and scattered panel by panel.
    #[arg(long)]
    ring: bool,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|args: Arguments| with_type!(args.files.dtype(&args.options)?, T => run::<T>(&args)))
}

fn run<T: Number>(Arguments { ring, files, options }: &Arguments) -> Result<(), Stop> {
    let [rows, inner, columns] = files.size(["m", "k"], [384, 256, 320])?;
    let mesh = options.mesh("gemm_rs", ["x"], 4, balanced)?;
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn gemm_rs(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let gemm_rs =
        matmul.distribute([k], [ko], [ki], &mesh).shard("A", [k.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
    let gemm_rs = if *ring {
        // Each rank begins with the rows of another, so that the sums of all of them are under way at once.
        let rows = gemm_rs.divide(m, mo, mi, x.extent).reorder([mo, mi, n, ki]).rotate(mo, [ko]);
        rows.communicate("C", mo).tensorize([mi, n, ki])
    } else {
        let panels = gemm_rs.divide(n, no, ni, x.extent).reorder([no, m, ni, ki]);
        panels.communicate("C", no).tensorize([m, ni, ki])
    };
    let program = options.lower(&gemm_rs)?;

    polyshard::spmd(mesh.size(), |world| {
        files.begin(world, options, &program)?;
        let a = files.input::<T>(world, options, "A", program.sharding("A"))?;
        let b = files.input::<T>(world, options, "B", program.sharding("B"))?;
        let c = options.time(world, flops(&program), || program.run(world, &[&a, &b]))?;
        files.write(world, &c)?;
        if let Some([a, b, c]) = options.gather(world, [&a, &b, &c])? {
            options.check(&[&a, &b], &c, inner, |inputs| reference(program.kernel(), inputs, None))?;
        }
        Ok(())
    })?;
    Ok(())
}
