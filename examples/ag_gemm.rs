//! AllGather-GEMM: every rank computes its rows of C from its columns of A and, panel by panel, all of B.
//!
//! The product of a tensor-parallel layer: A and B are sharded along m and n, and B is gathered while it is
//! multiplied. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example ag_gemm -- --mesh 3 --size 50,30,70 --type i64
//! mpirun -n 4 target/release/examples/ag_gemm
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, balanced, flops, with_type};
use std::process::ExitCode;

/// C = transposed A·B with B gathered panel by panel.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example ag_gemm -- --mesh 3 --size 50,30,70 --type i64
  mpirun -n 4 target/release/examples/ag_gemm --size 50,30,70")]
struct Arguments {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|args: Arguments| with_type!(args.files.dtype(&args.options)?, T => run::<T>(&args)))
}

fn run<T: Number>(Arguments { files, options }: &Arguments) -> Result<(), Stop> {
    let [rows, inner, columns] = files.size(["k", "m"], [1024, 512, 2048])?;
    let mesh = options.mesh("ag_gemm", ["x"], 4, balanced)?;
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn ag_gemm(A: [T; inner, rows], B: [T; inner, columns]) -> C: [T; rows, columns] {
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
    let program = options.lower(&ag_gemm)?;

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
