//! Heat that spreads over a torus: each step takes a weighted mean of a point and of its neighbours, four of them or, with
//! `--points 9`, those at the corners too.
//!
//! A rank needs the rim of its neighbours' blocks, and the corners of those that touch it at one point. The weights are
//! powers of 2. Nine points: the mean [1 2 1; 2 4 2; 1 2 1] / 16.
//!
//! ```text
//! cargo run --release --example heat -- --points 9 --explain
//! mpirun -n 6 target/release/examples/heat --size 50,70 --steps 10
//! ```

use clap::Parser;
use polyshard::prelude::*;
use polyshard::{Element, launched_ranks};
use std::error::Error;
use std::time::Instant;

/// Steps of a 5-point or of a 9-point stencil on a periodic grid, cut along both dimensions.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example heat -- --points 9 --explain
  mpirun -n 6 target/release/examples/heat --size 50,70 --steps 10")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Points of the grid in each dimension, at least 1; they need not divide.
    #[arg(long, value_name = "ROWS,COLUMNS", value_delimiter = ',', default_value = "400,300")]
    size: Vec<usize>,
    /// Points of the stencil, 5 or 9.
    #[arg(long, default_value = "5", value_parser = ["5", "9"])]
    points: String,
    /// How often to apply it.
    #[arg(long, default_value_t = 3)]
    steps: usize,
    /// Say why each transfer is what it is, instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[rows, columns] = &args.size[..] else { return Err("`--size` takes rows and columns, such as 50,70".into()) };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    vars!(i, j, io, ii, jo, ji);
    let five = kernel! {
        fn heat(A: [f32; rows, columns]) -> B: [f32; rows, columns] {
            B[i, j] = 0.5 * A[i, j]
                + 0.125 * (A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns] + A[i, (j + 1) % columns])
        }
    };
    let nine = kernel! {
        fn heat(A: [f32; rows, columns]) -> B: [f32; rows, columns] {
            B[i, j] = 0.25 * A[i, j]
                + 0.125 * (A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns] + A[i, (j + 1) % columns])
                + 0.0625 * (A[(i - 1) % rows, (j - 1) % columns] + A[(i - 1) % rows, (j + 1) % columns]
                    + A[(i + 1) % rows, (j - 1) % columns] + A[(i + 1) % rows, (j + 1) % columns])
        }
    };
    let stencil = if args.points == "9" { nine } else { five };
    let heat = stencil
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("B", [i.at(x), j.at(y)]);
    let program = heat.lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        let mut now = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index))?;
        let mut step = program.prepare(world)?;
        let (mut seconds, mut received, mut error) = (0.0, 0, 0.0);
        for _ in 0..args.steps {
            let (start, before) = (Instant::now(), world.bytes_received());
            let next = step.run(&[&now])?;
            seconds += start.elapsed().as_secs_f64();
            received += world.bytes_received() - before;
            error = program.verify(world, &[&now], &[&next], 1e-6)?.max(error);
            now = next;
        }
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
