//! SYRK, a matrix times its own transpose: every rank needs a panel of its rows of A and one of its columns of C, which are
//! rows of A too.
//!
//! The schedule is SUMMA's; the second operand is the first one, read by other ranks.
//!
//! ```text
//! cargo run --release --example syrk -- --print explain
//! mpirun -n 6 target/release/examples/syrk --size 50,70 --type f64
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Number, Options, Size, Stop, balanced, flops, parse_size, with_type};
use std::process::ExitCode;

/// C = A·transposed A, where both read one array.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example syrk -- --print explain
  mpirun -n 6 target/release/examples/syrk --size 50,70 --type f64")]
struct Arguments {
    /// Extents of A[n, k]; they need not divide.
    #[arg(long, value_parser = parse_size::<2>("n and k", "384,256"), value_name = "N,K",
        default_value = "384,256", allow_hyphen_values = true)]
    size: Size<2>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|arguments: Arguments| with_type!(arguments.options.dtype(), T => run::<T>(&arguments)))
}

fn run<T: Number>(Arguments { size, options }: &Arguments) -> Result<(), Stop> {
    let Size([rows, inner]) = *size;
    let mesh = options.mesh("syrk", ["x", "y"], 4, balanced)?;
    let [x, y] = mesh.axes();
    let kernel = kernel! {
        fn syrk(A: [T; rows, inner]) -> C: [T; rows, rows] { C[i, j] += A[i, k] * A[j, k] }
    };
    vars!(i, j, k, io, ii, jo, ji, ko, ki);
    let syrk = kernel
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .divide(k, ko, ki, y.extent)
        .reorder([io, jo, ko, ii, ji, ki])
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("C", [i.at(x), j.at(y)])
        .communicate("A", ko)
        .tensorize([ii, ji, ki]);
    let program = options.lower(&syrk)?;

    polyshard::spmd(mesh.size(), |world| {
        options.begin(world, &[&program])?;
        let a = DistArray::from_fn(world, program.sharding("A"), |index| options.element::<T>(0, index))?;
        let c = options.time(world, flops(&program), || program.run(world, &[&a]))?;
        if let Some([a, c]) = options.gather(world, [&a, &c])? {
            options.check(&[&a], &c, inner, |inputs| reference(program.kernel(), inputs, None))?;
        }
        Ok(())
    })?;
    Ok(())
}
