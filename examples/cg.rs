//! Conjugate gradients on the Laplacian of a rectangle whose edges are held at 0: solves L X = B (M. Hestenes and E. Stiefel,
//! "Methods of conjugate gradients for solving linear systems", 1952).
//!
//! Each round computes one product with L, whose halo fetches the rims of neighbours' blocks, two inner products, and
//! three updates. Values carried to the next round are renamed, not copied. The sum that ends the rounds has the same
//! bits on all ranks, so all end together.
//!
//! ```text
//! cargo run --release --example cg -- --explain
//! mpirun -n 6 target/release/examples/cg --size 50,70
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Conjugate gradients on the Laplacian of a rectangle.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example cg -- --explain
  mpirun -n 6 target/release/examples/cg --size 50,70")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Points of the grid in each dimension, at least 1; the mesh need not divide them.
    #[arg(long, value_name = "ROWS,COLUMNS", value_delimiter = ',', default_value = "60,50")]
    size: Vec<usize>,
    /// Stop when the square of the residual is below this.
    #[arg(long, default_value_t = 1e-16)]
    tolerance: f64,
    /// Maximum number of rounds.
    #[arg(long, default_value_t = 10_000)]
    rounds: u64,
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
    vars!(i, j, io, ii, jo, ji);
    let laplace = kernel! {
        fn laplace(D: [f64; rows, columns]) -> Q: [f64; rows, columns] {
            Q[i, j] = 4.0 * D[i, j] - (D[i - 1, j] else 0.0) - (D[i + 1, j] else 0.0)
                - (D[i, j - 1] else 0.0) - (D[i, j + 1] else 0.0)
        }
    };
    let dot = kernel! {
        fn dot(A: [f64; rows, columns], B: [f64; rows, columns]) -> s: f64 { s[] += A[i, j] * B[i, j] }
    };
    let add = kernel! {
        fn add(A: [f64; rows, columns], s: f64, t: f64, B: [f64; rows, columns]) -> C: [f64; rows, columns] {
            C[i, j] = A[i, j] + s[] / t[] * B[i, j]
        }
    };
    let subtract = kernel! {
        fn subtract(A: [f64; rows, columns], s: f64, t: f64, B: [f64; rows, columns]) -> C: [f64; rows, columns] {
            C[i, j] = A[i, j] - s[] / t[] * B[i, j]
        }
    };
    // All matrices have the same sharding; every rank has the scalars.
    let lowered = |schedule: Schedule, matrices: &[&'static str]| {
        let schedule = schedule.distribute([i, j], [io, jo], [ii, ji], &mesh);
        matrices.iter().fold(schedule, |schedule, name| schedule.shard(*name, [dim(0).at(x), dim(1).at(y)])).lower()
    };
    let laplace = lowered(laplace, &["D", "Q"])?;
    let dot = lowered(dot, &["A", "B"])?;
    let add = lowered(add, &["A", "B", "C"])?;
    let subtract = lowered(subtract, &["A", "B", "C"])?;

    let round = Sequence::new()
        .stage(&laplace, ["D"], "Q")
        .stage(&dot, ["D", "Q"], "dq")
        .stage(&add, ["X", "rr", "dq", "D"], "X2")
        .stage(&subtract, ["R", "rr", "dq", "Q"], "R2")
        .stage(&dot, ["R2", "R2"], "rr2")
        .stage(&add, ["R2", "rr2", "rr", "D"], "D2")
        .carry("X2", "X")
        .carry("R2", "R")
        .carry("D2", "D")
        .carry("rr2", "rr")
        .until("rr2", args.tolerance);
    let program = Sequence::new().stage(&dot, ["R", "R"], "rr").repeat(args.rounds, round).keep("X").build()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        // Start at X = 0, where the residual R and the first direction D are B.
        let arrays = program.inputs().map(|input| {
            let is_start = input.name.as_str() == "X";
            let element = |index: &[usize]| if is_start { 0.0 } else { f64::random(1, index) };
            DistArray::from_fn(world, &input.sharding, element)
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<_> = arrays.iter().collect();
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let solved = prepared.run(&inputs)?;
        let seconds = start.elapsed().as_secs_f64();
        let (rounds, received) = (prepared.rounds()[0], world.bytes_received() - before);
        let error = program.verify(world, &inputs, &[&solved], 1e-6)?;
        if world.is_root() {
            println!("{seconds:.6} s, {rounds} rounds, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
