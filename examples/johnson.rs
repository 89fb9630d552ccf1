//! The 3-D algorithm: A and B are broadcast from two faces of a cube of ranks, and C is reduced onto a third.
//!
//! R. Agarwal, S. Balle, F. Gustavson, M. Joshi and P. Palkar, "A three-dimensional approach to parallel matrix
//! multiplication", IBM Journal of Research and Development 39(5), 1995, after S. L. Johnsson, 1993. Schedule after Yadav,
//! Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example johnson -- --mesh 2x2x2 --print explain
//! mpirun -n 8 target/release/examples/johnson --size 500,300,700 --type f64
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, balanced, flops, with_type};
use std::process::ExitCode;

/// C = A·B by the 3-D algorithm of Agarwal et al. 1995.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example johnson -- --mesh 2x2x2 --print explain
  mpirun -n 8 target/release/examples/johnson --size 50,30,70 --type f64")]
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
    let [rows, inner, columns] = files.size(["m", "k"], [384, 256, 320])?;
    let mesh = options.mesh("johnson", ["x", "y", "z"], 8, balanced)?;
    let [x, y, z] = mesh.axes();
    let matmul = kernel! {
        fn johnson(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
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
    let program = options.lower(&johnson)?;

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
