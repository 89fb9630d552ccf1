//! PUMMA: panels of B are broadcast along columns, panels of A move on by one rank along rows.
//!
//! J. Choi, J. Dongarra and D. Walker, "PUMMA: Parallel Universal Matrix Multiplication Algorithms on
//! Distributed Memory Concurrent Computers", Concurrency: Practice and Experience 6(7), 1994. Schedule after
//! Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example pumma -- --mesh 3x3 --print explain
//! mpirun -n 4 target/release/examples/pumma --type f64
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, balanced, flops, with_type};
use std::process::ExitCode;

/// C = A·B by PUMMA, Choi, Dongarra and Walker 1994.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example pumma -- --mesh x=3,y=3 --print explain
  mpirun -n 4 target/release/examples/pumma --size 50,30,70 --type f64")]
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
    let [rows, inner, columns] = files.size(["m", "k"], [512, 2048, 1024])?;
    let mesh = options.mesh("pumma", ["x", "y"], 4, balanced)?;
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn pumma(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    // As many steps as A has panels: each goes around its row once.
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
    let program = options.lower(&pumma)?;

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
