//! SYRK, a matrix times its own transpose: every rank needs a panel of A for its rows of C and one for its columns of
//! C, which are rows of A too.
//!
//! The schedule is SUMMA's; the second operand is the first one again, read by other ranks.
//!
//! ```text
//! cargo run --release --example syrk -- --explain
//! mpirun -n 6 target/release/examples/syrk --size 50,70
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// C = A·transposed A, where both read one array.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example syrk -- --explain
  mpirun -n 6 target/release/examples/syrk --size 50,70")]
struct Args {
    /// Ranks along x and y, as 2x2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Extents of A[n, k]; the mesh need not divide them.
    #[arg(long, value_name = "N,K", value_delimiter = ',', default_value = "384,256")]
    size: Vec<usize>,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[rows, inner] = &args.size[..] else { return Err("`--size` takes n and k, such as 50,70".into()) };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    let kernel = kernel! {
        fn syrk(A: [f32; rows, inner]) -> C: [f32; rows, rows] { C[i, j] += A[i, k] * A[j, k] }
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
    let program = syrk.lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index))?;
        let start = Instant::now();
        let c = program.run(world, &[&a])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        let error = program.verify(world, &[&a], &[&c], 1e-4)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
