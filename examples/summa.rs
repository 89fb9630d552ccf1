//! SUMMA: at step `ko` each rank gets one panel of A along its row and one panel of B along its column.
//!
//! R. van de Geijn and J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", Concurrency:
//! Practice and Experience 9(4), 1997. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example summa -- --print program
//! mpirun -n 6 target/release/examples/summa --mesh 2x3 --size 500,300,700 --type f64
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, balanced, flops, with_type};
use std::process::ExitCode;

/// C = A·B by SUMMA, van de Geijn and Watts 1997.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example summa -- --print program
  mpirun -n 6 target/release/examples/summa --mesh 2x3 --size 50,30,70 --type f64")]
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
    let mesh = options.mesh("summa", ["x", "y"], 4, balanced)?;
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn summa(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    // A is cut along k by y, B by x: with a common multiple of steps every panel has one owner.
    let steps = (1..=y.extent).map(|factor| factor * x.extent).find(|steps| steps.is_multiple_of(y.extent));
    let summa = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, steps.expect("the product of both is one"))
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
        .tensorize([mi, ni, ki]);
    let program = options.lower(&summa)?;

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
