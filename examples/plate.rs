//! The heat equation on a plate whose rim keeps its temperature, in time steps until one of them changes little.
//!
//! The first statement of a round names the plate before the step, without a copy; the second writes its interior; the
//! third finds the largest change. A round fetches the rims of neighbours' blocks and all-reduces that maximum, which
//! ends the rounds on all ranks together. The rim has the temperatures of a harmonic polynomial, which the plate must
//! approach.
//!
//! ```text
//! cargo run --release --example plate -- --explain
//! mpirun -n 6 target/release/examples/plate --size 13,17 --tolerance 1e-12
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::f64::consts::PI;
use std::time::Instant;

/// The steady temperature of a plate with a given rim.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example plate -- --explain
  mpirun -n 6 target/release/examples/plate --size 13,17 --tolerance 1e-12")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Points of the plate in each dimension, at least 3; the mesh need not divide them.
    #[arg(long, value_name = "ROWS,COLUMNS", value_delimiter = ',', default_value = "24,20")]
    size: Vec<usize>,
    /// Stop when no point changes by this much.
    #[arg(long, default_value_t = 1e-9)]
    tolerance: f64,
    /// Maximum number of time steps.
    #[arg(long, default_value_t = 100_000)]
    steps: u64,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[rows, columns] = &args.size[..] else { return Err("`--size` takes rows and columns, such as 13,17".into()) };
    if rows < 3 || columns < 3 {
        return Err("a plate has at least 3 rows and 3 columns, of which the outer ones are its rim".into());
    }
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    let (steps, tolerance) = (args.steps, args.tolerance);
    let heat = kernel! {
        fn plate(A: [f64; rows, columns]) -> A {
            repeat(steps, until change < tolerance) {
                let B[i, j] = A[i, j];
                A[i, j] = 0.25 * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
                    for i in 1..rows - 1 for j in 1..columns - 1;
                let change max= abs(A[i, j] - B[i, j]);
            }
        }
    };
    vars!(i, j, io, ii, jo, ji);
    let program = heat.distribute([i, j], [io, jo], [ii, ji], &mesh).shard("A", [i.at(x), j.at(y)]).lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    let (bottom, right) = ((rows - 1) as f64, (columns - 1) as f64);
    // A point of i * i - j * j is the mean of its four neighbours.
    let steady = |i: usize, j: usize| ((i * i) as f64 - (j * j) as f64) / (bottom * bottom + right * right);
    let wrong = polyshard::spmd(mesh.size(), |world| {
        let cold = DistArray::from_fn(world, program.sharding("A"), |at| {
            let is_rim = at[0] == 0 || at[0] == rows - 1 || at[1] == 0 || at[1] == columns - 1;
            if is_rim { steady(at[0], at[1]) } else { 0.0 }
        })?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let warm = prepared.run(&[&cold])?;
        let seconds = start.elapsed().as_secs_f64();
        let (rounds, received) = (prepared.rounds()[0], world.bytes_received() - before);
        let error = program.verify(world, &[&cold], &[&warm], 1e-9)?;
        if let Some(warm) = warm.gather(world)? {
            println!("{seconds:.6} s, {rounds} time steps, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let distances = warm.indexed_iter().map(|(at, found)| (found - steady(at[0], at[1])).abs());
            let distance = distances.max_by(f64::total_cmp).unwrap_or(0.0);
            println!("largest distance from the steady temperature: {distance:e}");
            // The slowest part of the error shrinks by this factor in each step, so it is a multiple of its change.
            let kept = 0.5 * ((PI / bottom).cos() + (PI / right).cos());
            let allowed = 2.0 * (args.tolerance + f64::EPSILON) / (1.0 - kept);
            let is_wrong = distance.is_nan() || rounds < args.steps && distance > allowed;
            return Ok(
                is_wrong.then(|| format!("the plate is {distance:e} from its steady temperature after {rounds} steps"))
            );
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}
