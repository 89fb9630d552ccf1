//! The inner product of two tensors: every rank sums over its own elements, and the sums of all ranks meet on all of them.
//!
//! ```text
//! cargo run --release --example inner -- --mesh 2x3 --print explain
//! mpirun -n 6 target/release/examples/inner --size 50,70 --type f64
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Number, Options, Size, Stop, balanced, flops, parse_size, with_type};
use std::process::ExitCode;

/// The sum of A[i, j]·B[i, j], on all ranks.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example inner -- --mesh 2x3 --print explain
  mpirun -n 6 target/release/examples/inner --size 50,70 --type f64")]
struct Arguments {
    /// Extents of A and B; they need not divide.
    #[arg(long, value_parser = parse_size::<2>("i and j", "1000,800"), value_name = "I,J",
        default_value = "1000,800", allow_hyphen_values = true)]
    size: Size<2>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|arguments: Arguments| with_type!(arguments.options.dtype(), T => run::<T>(&arguments)))
}

fn run<T: Number>(Arguments { size, options }: &Arguments) -> Result<(), Stop> {
    let Size([rows, columns]) = *size;
    let mesh = options.mesh("inner", ["x", "y"], 4, balanced)?;
    let [x, y] = mesh.axes();
    let kernel = kernel! {
        fn inner(A: [T; rows, columns], B: [T; rows, columns]) -> s: T { s[] += A[i, j] * B[i, j] }
    };
    vars!(i, j, io, ii, jo, ji);
    // No axis is named where the sum lies, so all ranks have it.
    let inner = kernel
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("A", [i.at(x), j.at(y)])
        .shard("B", [i.at(x), j.at(y)])
        .shard("s", [])
        .tensorize([ii, ji]);
    let program = options.lower(&inner)?;

    polyshard::spmd(mesh.size(), |world| {
        options.begin(world, &[&program])?;
        let a = DistArray::from_fn(world, program.sharding("A"), |index| options.element::<T>(0, index))?;
        let b = DistArray::from_fn(world, program.sharding("B"), |index| options.element(1, index))?;
        let s = options.time(world, flops(&program), || program.run(world, &[&a, &b]))?;
        if let Some([a, b, s]) = options.gather(world, [&a, &b, &s])? {
            let terms = rows * columns;
            options.check(&[&a, &b], &s, terms, |inputs| reference(program.kernel(), inputs, None))?;
        }
        Ok(())
    })?;
    Ok(())
}
