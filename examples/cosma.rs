//! The product on a grid of ranks in all three indices, which moves as little as any algorithm can on the grid that suits
//! the sizes: A is gathered along n's axis, B along m's, and C is reduce-scattered along k's.
//!
//! G. Kwasniewski, M. Kabic, M. Besta, J. VandeVondele, R. Solca and T. Hoefler, "Red-blue pebbling revisited: near optimal
//! parallel matrix-matrix multiplication" (COSMA), SC 2019. With `--memory`, A and B come in panels of k, which changes
//! how much memory is taken and not how much is moved. Words per rank on p_m x p_n x p_k: H. Al Daas et al., "Tight
//! memory-independent parallel matrix multiplication communication lower bounds", SPAA 2022.
//!
//! ```text
//! cargo run --release --example cosma -- --mesh 4x2x1 --size 960,60,240 --memory 20000 --print explain
//! mpirun -n 8 target/release/examples/cosma --size 500,300,700 --type f64
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, flops, with_type};
use std::process::ExitCode;

/// C = A·B on the grid of ranks that moves least, as COSMA does; the axes of the mesh cut m, n and k.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example cosma -- --mesh 4x2x1 --size 960,60,240 --memory 20000 --print explain
  mpirun -n 8 target/release/examples/cosma --size 50,30,70 --type f64")]
struct Arguments {
    /// Elements that the tiles of a rank may hold, which decides how long panels of k are [default: any number].
    #[arg(long, value_name = "ELEMENTS", value_parser = polyshard::cli::numbers::whole::<usize>)]
    memory: Option<usize>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|args: Arguments| with_type!(args.files.dtype(&args.options)?, T => run::<T>(&args)))
}

fn run<T: Number>(Arguments { memory, files, options }: &Arguments) -> Result<(), Stop> {
    let size @ [rows, inner, columns] = files.size(["m", "k"], [384, 256, 320])?;
    let mesh = options.mesh("cosma", ["x", "y", "z"], 8, |ranks| grid(ranks, size))?;
    let [x, y, z] = mesh.axes();
    let matmul = kernel! {
        fn cosma(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, kl, kp, ki);
    let tiles = [rows.div_ceil(x.extent), inner.div_ceil(z.extent), columns.div_ceil(y.extent)];
    let cosma = matmul
        .distribute([m, n, k], [mo, no, ko], [mi, ni, kl], &mesh)
        .split(kl, kp, ki, panel(tiles, *memory))
        .reorder([kp, mi, ni, ki])
        .shard("A", [m.at(x).at(y), k.at(z)])
        .shard("B", [k.at(z), n.at(y).at(x)])
        .shard("C", [m.at(x).at(z), n.at(y)])
        .communicate("A", kp)
        .communicate("B", kp)
        .tensorize([mi, ni, ki]);
    let program = options.lower(&cosma)?;

    polyshard::spmd(mesh.size(), |world| {
        files.begin(world, options, &program)?;
        let a = files.input::<T>(world, options, "A", program.sharding("A"))?;
        let b = files.input::<T>(world, options, "B", program.sharding("B"))?;
        let c = options.time(world, flops(&program), || program.run(world, &[&a, &b]))?;
        files.write(world, &c)?;
        if let Some([a, b, c]) = options.gather(world, [&a, &b, &c])? {
            options.check(&[&a, &b], &c, inner, |inputs| reference(program.kernel(), inputs, None))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The grid on which a rank receives the fewest words: mk/(p_m p_k) + kn/(p_k p_n) + mn/(p_m p_n), less what it has.
fn grid(ranks: usize, [rows, inner, columns]: [usize; 3]) -> [usize; 3] {
    let divisors = |of: usize| (1..=of).filter(move |by| of.is_multiple_of(*by));
    let grids = divisors(ranks).flat_map(|x| divisors(ranks / x).map(move |y| [x, y, ranks / x / y]));
    let words = |&[x, y, z]: &[usize; 3]| {
        let [m, k, n] = [rows.div_ceil(x), inner.div_ceil(z), columns.div_ceil(y)].map(|extent| extent as f64);
        m * k + k * n + m * n
    };
    grids.min_by(|a, b| words(a).total_cmp(&words(b))).expect("one rank is a grid")
}

/// The longest panel of k with which a tile of C, one of A and one of B fit.
fn panel([m, k, n]: [usize; 3], memory: Option<usize>) -> usize {
    let room = memory.map(|elements| elements.saturating_sub(m.saturating_mul(n)) / m.saturating_add(n).max(1));
    room.unwrap_or(k).clamp(1, k.max(1))
}
