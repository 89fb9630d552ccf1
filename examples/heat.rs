//! The heat equation in time steps: each computes the weighted mean of a point and its neighbours, 4 or 8 in two
//! dimensions, 6 or 26 in three. Edges are periodic, or with `--cold` everything outside is 0.
//!
//! A rank needs the rim of its neighbours' blocks, and with 9 or 27 points also the corners of diagonal neighbours.
//! Steps are rounds of one program: the result of one is renamed for the next, so that no array is copied and only rims
//! move. The weights are powers of 2. With `--halo 3` a round is three steps with one halo wide enough for all
//! (temporal blocking), which needs a third of the messages; with `--interior-first` the interior is computed while the
//! rims are in flight.
//!
//! ```text
//! cargo run --release --example heat -- --points 9 --explain
//! mpirun -n 6 target/release/examples/heat --size 50,70 --steps 10
//! mpirun -n 6 target/release/examples/heat --size 20,30,40 --points 27 --cold
//! mpirun -n 6 target/release/examples/heat --steps 12 --halo 3
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Time steps of the heat equation on a grid of two or three dimensions; the first two are divided over the ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example heat -- --points 9 --explain
  mpirun -n 6 target/release/examples/heat --size 50,70 --steps 10
  mpirun -n 6 target/release/examples/heat --size 20,30,40 --points 27")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Points of the grid in each of two or three dimensions, at least 1; the mesh need not divide them [default: 400,300; with 7 or 27 points
    /// 40,30,20].
    #[arg(long, value_name = "ROWS,COLUMNS[,LAYERS]", value_delimiter = ',')]
    size: Vec<usize>,
    /// Points of the stencil: 5 or 9 in two dimensions, 7 or 27 in three [default: the fewer].
    #[arg(long, value_parser = ["5", "7", "9", "27"])]
    points: Option<String>,
    /// Read 0 beyond the edges instead of the opposite edge; with 5 or 7 points only.
    #[arg(long)]
    cold: bool,
    /// Fetch one halo for this many steps, and recompute some of the neighbours' points; must divide the number of steps.
    #[arg(long, default_value_t = 1, value_name = "STEPS")]
    halo: usize,
    /// Compute the interior while the halo is in flight.
    #[arg(long)]
    interior_first: bool,
    /// Number of time steps.
    #[arg(long, default_value_t = 3)]
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
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    vars!(i, j, io, ii, jo, ji);
    let points = args.points.as_deref();
    let size = match (&args.size[..], points) {
        ([], Some("7" | "27")) => &[40, 30, 20],
        ([], _) => &[400, 300][..],
        (size, _) => size,
    };
    let stencil = match (size, points, args.cold) {
        (&[rows, columns], None | Some("5"), cold) => in_the_plane(rows, columns, cold),
        (&[rows, columns], Some("9"), false) => with_corners(rows, columns),
        (&[rows, columns, layers], None | Some("7"), cold) => in_space(rows, columns, layers, cold),
        (&[rows, columns, layers], Some("27"), false) => with_all_around(rows, columns, layers),
        _ => {
            let why =
                "`--size` takes 2 extents with 5 or 9 points, or 3 with 7 or 27; `--cold` goes with the fewer points";
            return Err(why.into());
        }
    };
    let in_blocks = stencil
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("B", [i.at(x), j.at(y)]);
    let in_blocks = if args.interior_first { in_blocks.interior_first("A") } else { in_blocks };
    let step = in_blocks.halo("A", args.halo).lower()?;
    if args.explain {
        polyshard::exit(0, step.explain());
    }
    let each = step.nest().applications();
    if !args.steps.is_multiple_of(each) {
        return Err(format!(
            "{} steps are not rounds of {each}; take a multiple of {each}, or another `--halo`",
            args.steps
        )
        .into());
    }
    // B of this round is A of the next.
    let program =
        Sequence::new().repeat(args.steps / each, Sequence::new().stage(&step, ["A"], "B").carry("B", "A")).build()?;

    polyshard::spmd(mesh.size(), |world| {
        let begin = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index))?;
        let mut prepared = program.prepare(world)?;
        let (start, before) = (Instant::now(), world.bytes_received());
        let end = prepared.run(&[&begin])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
        let error = program.verify(world, &[&begin], &[&end], 1e-6)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}

fn in_the_plane(rows: usize, columns: usize, cold: bool) -> Schedule {
    if cold {
        return kernel! {
            fn heat(A: [f32; rows, columns]) -> B: [f32; rows, columns] {
                B[i, j] = 0.5 * A[i, j] + 0.125 * ((A[i - 1, j] else 0.0) + (A[i + 1, j] else 0.0)
                    + (A[i, j - 1] else 0.0) + (A[i, j + 1] else 0.0))
            }
        };
    }
    kernel! {
        fn heat(A: [f32; rows, columns]) -> B: [f32; rows, columns] {
            B[i, j] = 0.5 * A[i, j]
                + 0.125 * (A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns] + A[i, (j + 1) % columns])
        }
    }
}

/// The mean [1 2 1; 2 4 2; 1 2 1] / 16.
fn with_corners(rows: usize, columns: usize) -> Schedule {
    kernel! {
        fn heat(A: [f32; rows, columns]) -> B: [f32; rows, columns] {
            B[i, j] = 0.25 * A[i, j]
                + 0.125 * (A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns] + A[i, (j + 1) % columns])
                + 0.0625 * (A[(i - 1) % rows, (j - 1) % columns] + A[(i - 1) % rows, (j + 1) % columns]
                    + A[(i + 1) % rows, (j - 1) % columns] + A[(i + 1) % rows, (j + 1) % columns])
        }
    }
}

fn in_space(rows: usize, columns: usize, layers: usize, cold: bool) -> Schedule {
    if cold {
        return kernel! {
            fn heat(A: [f32; rows, columns, layers]) -> B: [f32; rows, columns, layers] {
                B[i, j, k] = 0.25 * A[i, j, k] + 0.125 * ((A[i - 1, j, k] else 0.0) + (A[i + 1, j, k] else 0.0)
                    + (A[i, j - 1, k] else 0.0) + (A[i, j + 1, k] else 0.0)
                    + (A[i, j, k - 1] else 0.0) + (A[i, j, k + 1] else 0.0))
            }
        };
    }
    kernel! {
        fn heat(A: [f32; rows, columns, layers]) -> B: [f32; rows, columns, layers] {
            B[i, j, k] = 0.25 * A[i, j, k] + 0.125 * (A[(i - 1) % rows, j, k] + A[(i + 1) % rows, j, k]
                + A[i, (j - 1) % columns, k] + A[i, (j + 1) % columns, k]
                + A[i, j, (k - 1) % layers] + A[i, j, (k + 1) % layers])
        }
    }
}

/// The mean of means along the three dimensions, each [1 2 1] / 4.
fn with_all_around(rows: usize, columns: usize, layers: usize) -> Schedule {
    kernel! {
        fn heat(A: [f32; rows, columns, layers]) -> B: [f32; rows, columns, layers] {
            B[i, j, k] = 0.125 * A[i, j, k]
                + 0.0625 * (A[(i - 1) % rows, j, k] + A[(i + 1) % rows, j, k]
                    + A[i, (j - 1) % columns, k] + A[i, (j + 1) % columns, k]
                    + A[i, j, (k - 1) % layers] + A[i, j, (k + 1) % layers])
                + 0.03125 * (A[(i - 1) % rows, (j - 1) % columns, k] + A[(i - 1) % rows, (j + 1) % columns, k]
                    + A[(i + 1) % rows, (j - 1) % columns, k] + A[(i + 1) % rows, (j + 1) % columns, k]
                    + A[(i - 1) % rows, j, (k - 1) % layers] + A[(i - 1) % rows, j, (k + 1) % layers]
                    + A[(i + 1) % rows, j, (k - 1) % layers] + A[(i + 1) % rows, j, (k + 1) % layers]
                    + A[i, (j - 1) % columns, (k - 1) % layers] + A[i, (j - 1) % columns, (k + 1) % layers]
                    + A[i, (j + 1) % columns, (k - 1) % layers] + A[i, (j + 1) % columns, (k + 1) % layers])
                + 0.015625 * (A[(i - 1) % rows, (j - 1) % columns, (k - 1) % layers]
                    + A[(i - 1) % rows, (j - 1) % columns, (k + 1) % layers]
                    + A[(i - 1) % rows, (j + 1) % columns, (k - 1) % layers]
                    + A[(i - 1) % rows, (j + 1) % columns, (k + 1) % layers]
                    + A[(i + 1) % rows, (j - 1) % columns, (k - 1) % layers]
                    + A[(i + 1) % rows, (j - 1) % columns, (k + 1) % layers]
                    + A[(i + 1) % rows, (j + 1) % columns, (k - 1) % layers]
                    + A[(i + 1) % rows, (j + 1) % columns, (k + 1) % layers])
        }
    }
}
