//! MTTKRP, a matricized tensor times a Khatri-Rao product, the kernel of CP decompositions: the tensor stays where it is, the
//! factors are gathered, and the result is reduce-scattered.
//!
//! G. Ballard, N. Knight and K. Rouse, "Communication lower bounds for matricized tensor times Khatri-Rao product", IPDPS
//! 2018. Where the rank of the decomposition is large, the first axis of the mesh cuts it, and the tensor moves too.
//!
//! ```text
//! cargo run --release --example mttkrp -- --mesh 1x2x2x2 --print explain
//! mpirun -n 8 target/release/examples/mttkrp --size 50,40,30,8 --type f64
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Number, Options, Size, Stop, balanced, flops, parse_size, with_type};
use std::process::ExitCode;

/// B[i, r] = sum of X[i, j, k]·C[j, r]·D[k, r]; the axes of the mesh cut r, i, j and k.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example mttkrp -- --mesh 1x2x2x2 --print explain
  mpirun -n 8 target/release/examples/mttkrp --size 50,40,30,8 --type f64")]
struct Arguments {
    /// Extents of i, j, k and r; they need not divide.
    #[arg(long, value_parser = parse_size::<4>("i, j, k and r", "96,80,64,16"), value_name = "I,J,K,R",
        default_value = "96,80,64,16", allow_hyphen_values = true)]
    size: Size<4>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|arguments: Arguments| with_type!(arguments.options.dtype(), T => run::<T>(&arguments)))
}

fn run<T: Number>(Arguments { size, options }: &Arguments) -> Result<(), Stop> {
    let Size([first, second, third, rank]) = *size;
    // The tensor stays put unless `--mesh` says otherwise.
    let mesh = options.mesh("mttkrp", ["p", "x", "y", "z"], 8, |ranks| {
        let [x, y, z] = balanced(ranks);
        [1, x, y, z]
    })?;
    let [p, x, y, z] = mesh.axes();
    let kernel = kernel! {
        fn mttkrp(X: [T; first, second, third], C: [T; second, rank], D: [T; third, rank]) -> B: [T; first, rank] {
            B[i, r] += X[i, j, k] * C[j, r] * D[k, r]
        }
    };
    vars!(i, j, k, r, io, jo, ko, ro, ii, ji, ki, ri);
    let mttkrp = kernel
        .distribute([r, i, j, k], [ro, io, jo, ko], [ri, ii, ji, ki], &mesh)
        .shard("X", [i.at(x).at(p), j.at(y), k.at(z)])
        .shard("C", [j.at(y).at([x, z]), r.at(p)])
        .shard("D", [k.at(z).at([x, y]), r.at(p)])
        .shard("B", [i.at(x).at([y, z]), r.at(p)])
        .tensorize([ii, ri, ji, ki]);
    let program = options.lower(&mttkrp)?;

    polyshard::spmd(mesh.size(), |world| {
        options.begin(world, &[&program])?;
        let x = DistArray::from_fn(world, program.sharding("X"), |index| options.element::<T>(0, index))?;
        let c = DistArray::from_fn(world, program.sharding("C"), |index| options.element(1, index))?;
        let d = DistArray::from_fn(world, program.sharding("D"), |index| options.element(2, index))?;
        let b = options.time(world, flops(&program), || program.run(world, &[&x, &c, &d]))?;
        if let Some([x, c, d, b]) = options.gather(world, [&x, &c, &d, &b])? {
            let terms = second * third;
            options.check(&[&x, &c, &d], &b, terms, |inputs| reference(program.kernel(), inputs, None))?;
        }
        Ok(())
    })?;
    Ok(())
}
