//! Cannon's algorithm: blocks of A move on by one rank along rows, blocks of B along columns.
//!
//! L. Cannon, "A Cellular Computer to Implement the Kalman Filter Algorithm", Montana State University, 1969.
//! Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example cannon -- --home plain --print explain
//! mpirun -n 9 target/release/examples/cannon --mesh 3x3 --size 500,300,700
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, balanced, flops, with_type};
use std::process::ExitCode;

/// C = A·B by Cannon's algorithm, 1969.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example cannon -- --home plain --print explain
  mpirun -n 4 target/release/examples/cannon --mesh 2x2 --size 50,30,70 --out C.npy")]
struct Arguments {
    /// Where the blocks of A and B are before the program starts.
    #[arg(long, value_enum, default_value_t = Home::Skewed)]
    home: Home,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|args: Arguments| with_type!(args.files.dtype(&args.options)?, T => run::<T>(&args)))
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Home {
    /// Block (x, y) of the matrix on rank (x, y).
    Plain,
    /// Where the first step needs them: row x of A's blocks moved on by x, column y of B's by y.
    Skewed,
}

fn run<T: Number>(Arguments { home, files, options }: &Arguments) -> Result<(), Stop> {
    let [rows, inner, columns] = files.size(["m", "k"], [512, 2048, 1024])?;
    let mesh = options.mesh("cannon", ["x", "y"], 4, balanced)?;
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn cannon(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let cannon = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, y.extent)
        .reorder([mo, no, ko, mi, ni, ki])
        .rotate(ko, [mo, no])
        .shard("C", [m.at(x), n.at(y)]);
    // The first step of a skewed home is local; from plain blocks it takes a permutation. Each operand is
    // skewed around its own axis: on a mesh that is not square, B does not fit the steps and is exchanged.
    let cannon = match home {
        Home::Skewed => cannon
            .shard("A", [m.at(x), k.at((x + y) % y.extent as i64)])
            .shard("B", [k.at((x + y) % x.extent as i64), n.at(y)]),
        Home::Plain => cannon.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)]),
    };
    let cannon = cannon.communicate("A", ko).communicate("B", ko).tensorize([mi, ni, ki]);
    let program = options.lower(&cannon)?;

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
