//! The wave equation on a torus by leapfrog: a step needs the two before, so there are three time levels.
//!
//! A step fetches the rims of neighbours' blocks of the last level. A plane wave stays a plane wave under these steps,
//! with a frequency that has a closed form; this checks the result. R. Courant, K. Friedrichs and H. Lewy, "Über die
//! partiellen Differenzengleichungen der mathematischen Physik", Mathematische Annalen 100, 1928.
//!
//! ```text
//! cargo run --release --example wave -- --explain
//! mpirun -n 6 target/release/examples/wave --size 50,70 --steps 200
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::ndarray::ArrayD;
use polyshard::prelude::*;
use std::error::Error;
use std::f64::consts::PI;
use std::time::Instant;

/// Leapfrog steps of the wave equation on a torus.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example wave -- --explain
  mpirun -n 6 target/release/examples/wave --size 50,70 --steps 200")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Points of the grid in each dimension, at least 1; the mesh need not divide them.
    #[arg(long, value_name = "ROWS,COLUMNS", value_delimiter = ',', default_value = "60,50")]
    size: Vec<usize>,
    /// Square of speed * time step / distance between points, from 0 to 0.5: beyond that, steps are unstable.
    #[arg(long, default_value_t = 0.3)]
    courant: f64,
    /// Number of time steps.
    #[arg(long, default_value_t = 100)]
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
    let &[rows, columns] = &args.size[..] else { return Err("`--size` takes rows and columns, such as 50,70".into()) };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    let (c, steps) = (args.courant, args.steps);
    if !(0.0..=0.5).contains(&c) {
        return Err(format!("steps with `--courant {c}` are unstable; take a number from 0 to 0.5").into());
    }
    let leapfrog = kernel! {
        fn wave(U: [f64; rows, columns], before: [f64; rows, columns]) -> (U, before) {
            repeat(steps) {
                let next[i, j] = 2.0 * U[i, j] - before[i, j] + c * (U[(i - 1) % rows, j] + U[(i + 1) % rows, j]
                    + U[i, (j - 1) % columns] + U[i, (j + 1) % columns] - 4.0 * U[i, j]);
                before[i, j] = U[i, j];
                U[i, j] = next[i, j];
            }
        }
    };
    vars!(i, j, io, ii, jo, ji);
    let program = leapfrog
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("U", [i.at(x), j.at(y)])
        .shard("before", [i.at(x), j.at(y)])
        .lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    // cos(p * i + q * j - omega * step), with one period along the rows of the grid and two along its columns.
    let (p, q) = (2.0 * PI / rows as f64, 4.0 * PI / columns as f64);
    let omega = 2.0 * (c * ((p / 2.0).sin().powi(2) + (q / 2.0).sin().powi(2))).sqrt().min(1.0).asin();
    let exact = |i: usize, j: usize, step: f64| (p * i as f64 + q * j as f64 - omega * step).cos();

    let wrong = polyshard::spmd(mesh.size(), |world| {
        let begin = DistArray::from_fn(world, program.sharding("U"), |at| exact(at[0], at[1], 0.0))?;
        let earlier = DistArray::from_fn(world, program.sharding("before"), |at| exact(at[0], at[1], -1.0))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let [last, previous] = prepared.run_named(&[&begin, &earlier], ["U", "before"])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
        let error = program.verify(world, &[&begin, &earlier], &[&last, &previous], 1e-9)?;
        let (last, previous) = (last.gather(world)?, previous.gather(world)?);
        if let (Some(last), Some(previous)) = (last, previous) {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
            let from_wave = |level: &ArrayD<f64>, step: f64| {
                let distances = level.indexed_iter().map(|(at, found)| (found - exact(at[0], at[1], step)).abs());
                distances.max_by(f64::total_cmp).unwrap_or(0.0)
            };
            let distances = [from_wave(&last, steps as f64), from_wave(&previous, steps as f64 - 1.0)];
            println!("largest distance from the plane wave: {:e}, and {:e} a step before", distances[0], distances[1]);
            // A step rounds a few times, and an error grows by no more than itself in each of the steps after it.
            let allowed = 8.0 * f64::EPSILON * (steps as f64 + 1.0).powi(2);
            // NaN is above all numbers in this order.
            let is_wrong = distances.iter().any(|distance| distance.total_cmp(&allowed).is_gt());
            return Ok(
                is_wrong.then(|| format!("after {steps} steps, the grid is {distances:?} away from the plane wave"))
            );
        }
        Ok(None)
    })?;
    wrong.into_iter().flatten().next().map_or(Ok(()), |wrong| Err(wrong.into()))
}
