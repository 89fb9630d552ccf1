//! Heat that spreads over a torus: each step takes a weighted mean of a point and of its neighbours, four of them or, with
//! `--points 9`, those at the corners too.
//!
//! A rank needs the rim of its neighbours' blocks, and the corners of those that touch it at one point. The weights are
//! powers of 2. Nine points: the mean [1 2 1; 2 4 2; 1 2 1] / 16.
//!
//! ```text
//! cargo run --release --example heat -- --points 9 --print explain
//! mpirun -n 6 target/release/examples/heat --size 50,70 --steps 10 --type f64
//! ```

use clap::builder::{PossibleValuesParser, TypedValueParser};
use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Number, Options, Size, Stop, balanced, flops, parse_size, with_type};
use std::process::ExitCode;

/// Steps of a 5-point or of a 9-point stencil on a periodic grid, cut along both dimensions.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example heat -- --points 9 --print explain
  mpirun -n 6 target/release/examples/heat --size 50,70 --steps 10 --type f64")]
struct Arguments {
    /// Points of the grid in each dimension, at least 1; they need not divide.
    #[arg(long, value_parser = parse_size::<2>("rows and columns", "400,300"), value_name = "ROWS,COLUMNS",
        default_value = "400,300", allow_hyphen_values = true)]
    size: Size<2>,
    /// Points of the stencil, 5 or 9.
    #[arg(long, default_value = "5", value_parser = PossibleValuesParser::new(["5", "9"])
        .map(|points| points.parse::<usize>().expect("clap lets nothing else pass")))]
    points: usize,
    /// How often to apply it, at least once.
    #[arg(long, default_value = "3", value_parser = example::run::parse_repeat)]
    steps: u32,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|arguments: Arguments| with_type!(arguments.options.dtype(), T => run::<T>(&arguments)))
}

fn run<T: Number>(Arguments { size, points, steps, options }: &Arguments) -> Result<(), Stop> {
    let Size([rows, columns]) = *size;
    let mesh = options.mesh("heat", ["x", "y"], 4, balanced)?;
    let [x, y] = mesh.axes();
    vars!(i, j, io, ii, jo, ji);
    let five = kernel! {
        fn heat(A: [T; rows, columns]) -> B: [T; rows, columns] {
            B[i, j] = 0.5 * A[i, j]
                + 0.125 * (A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns] + A[i, (j + 1) % columns])
        }
    };
    let nine = kernel! {
        fn heat(A: [T; rows, columns]) -> B: [T; rows, columns] {
            B[i, j] = 0.25 * A[i, j]
                + 0.125 * (A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns] + A[i, (j + 1) % columns])
                + 0.0625 * (A[(i - 1) % rows, (j - 1) % columns] + A[(i - 1) % rows, (j + 1) % columns]
                    + A[(i + 1) % rows, (j - 1) % columns] + A[(i + 1) % rows, (j + 1) % columns])
        }
    };
    let stencil = if *points == 9 { nine } else { five };
    let heat = stencil
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("B", [i.at(x), j.at(y)]);
    let program = options.lower(&heat)?;

    polyshard::spmd(mesh.size(), |world| {
        options.begin(world, &[&program])?;
        let start = DistArray::from_fn(world, program.sharding("A"), |index| options.element::<T>(0, index))?;
        let end = options.time(world, f64::from(*steps) * flops(&program), || {
            (1..*steps).try_fold(program.run(world, &[&start])?, |now, _| program.run(world, &[&now]))
        })?;
        if let Some([start, end]) = options.gather(world, [&start, &end])? {
            options.check(&[&start], &end, *steps as usize * points, |inputs| {
                let first = reference(program.kernel(), inputs, None)?;
                (1..*steps).try_fold(first, |now, _| reference(program.kernel(), &[&now], None))
            })?;
        }
        Ok(())
    })?;
    Ok(())
}
