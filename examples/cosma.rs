//! The product on a grid of ranks in all three indices, which on the best grid for the sizes moves as little as any
//! algorithm can: A is gathered along n's axis, B along m's, and C is reduce-scattered along k's.
//!
//! G. Kwasniewski, M. Kabic, M. Besta, J. VandeVondele, R. Solca and T. Hoefler, "Red-blue pebbling revisited: near
//! optimal parallel matrix-matrix multiplication" (COSMA), SC 2019. With `--memory`, A and B are fetched in panels of
//! k, which reduces memory but does not change the traffic. Words per rank on p_m x p_n x p_k: H. Al Daas et al.,
//! "Tight memory-independent parallel matrix multiplication communication lower bounds", SPAA 2022.
//!
//! ```text
//! cargo run --release --example cosma -- --mesh 4x2x1 --size 960,60,240 --memory 20000 --explain
//! mpirun -n 8 target/release/examples/cosma --size 500,300,700
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// C = A·B on the grid of ranks with the least traffic, as in COSMA; the axes of the mesh divide m, n and k.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example cosma -- --mesh 4x2x1 --size 960,60,240 --memory 20000 --explain
  mpirun -n 8 target/release/examples/cosma --size 50,30,70")]
struct Args {
    /// Limit on the elements in a rank's tiles, which sets the length of panels of k [default: no limit].
    #[arg(long, value_name = "ELEMENTS")]
    memory: Option<usize>,
    /// Ranks along x, y and z, as 2x2x2 [default: 2x2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y", "z"]))]
    mesh: Option<Mesh>,
    /// Extents m, k and n; the mesh need not divide them.
    #[arg(long, value_name = "M,K,N", value_delimiter = ',', default_value = "384,256,320")]
    size: Vec<usize>,
    /// Write C to this `.npy` file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Explain each transfer instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[rows, inner, columns] = &args.size[..] else {
        return Err("`--size` takes m, k and n, such as 50,30,70".into());
    };
    let mesh = args.mesh.clone().unwrap_or_else(|| grid(launched_ranks().unwrap_or(8), [rows, inner, columns]));
    let [x, y, z] = mesh.axes();
    let matmul = kernel! {
        fn cosma(A: [f32; rows, inner], B: [f32; inner, columns]) -> C: [f32; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, kl, kp, ki);
    let tiles = [rows.div_ceil(x.extent), inner.div_ceil(z.extent), columns.div_ceil(y.extent)];
    let cosma = matmul
        .distribute([m, n, k], [mo, no, ko], [mi, ni, kl], &mesh)
        .split(kl, kp, ki, panel(tiles, args.memory))
        .reorder([kp, mi, ni, ki])
        .shard("A", [m.at(x).at(y), k.at(z)])
        .shard("B", [k.at(z), n.at(y).at(x)])
        .shard("C", [m.at(x).at(z), n.at(y)])
        .communicate("A", kp)
        .communicate("B", kp)
        .tensorize([mi, ni, ki]);
    let program = cosma.lower()?;
    if args.explain {
        polyshard::exit(0, program.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index))?;
        let b = DistArray::from_fn(world, program.sharding("B"), |index| f32::random(2, index))?;
        let start = Instant::now();
        let c = program.run(world, &[&a, &b])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        if let Some(out) = &args.out {
            c.to_npy(world, out)?;
        }
        let error = program.verify(world, &[&a, &b], &[&c], 1e-4)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}

/// The grid on which a rank receives the minimum number of words: mk/(p_m p_k) + kn/(p_k p_n) + mn/(p_m p_n), minus
/// those that it owns.
fn grid(ranks: usize, [rows, inner, columns]: [usize; 3]) -> Mesh {
    let divisors = |of: usize| (1..=of).filter(move |by| of.is_multiple_of(*by));
    let grids = divisors(ranks).flat_map(|x| divisors(ranks / x).map(move |y| [x, y, ranks / x / y]));
    let words = |&[x, y, z]: &[usize; 3]| {
        let [m, k, n] = [rows.div_ceil(x), inner.div_ceil(z), columns.div_ceil(y)].map(|extent| extent as f64);
        m * k + k * n + m * n
    };
    let grid = grids.min_by(|a, b| words(a).total_cmp(&words(b))).expect("one rank is a grid");
    Mesh::new(["x", "y", "z"].into_iter().zip(grid))
}

/// The longest panel of k such that a tile of C, one of A and one of B fit.
fn panel([m, k, n]: [usize; 3], memory: Option<usize>) -> usize {
    let room = memory.map(|elements| elements.saturating_sub(m.saturating_mul(n)) / m.saturating_add(n).max(1));
    room.unwrap_or(k).clamp(1, k.max(1))
}
