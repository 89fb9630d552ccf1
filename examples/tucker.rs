//! The core of a Tucker decomposition: a tensor times a matrix along each of its dimensions, one after the other.
//!
//! Each product sums over one axis of the mesh and scatters what it sums along that axis, so that the next one finds its
//! tensor where it needs it and nothing is redistributed in between. W. Austin, G. Ballard and T. Kolda, "Parallel tensor
//! compression for large-scale scientific data", IPDPS 2016.
//!
//! ```text
//! cargo run --release --example tucker -- --mesh 2x2x2 --print explain
//! mpirun -n 8 target/release/examples/tucker --size 50,40,30,8,7,6 --type f64
//! ```

use polyshard::prelude::*;
use polyshard::{Pipeline, reference};
use polyshard_testing::example::{self, Number, Options, Size, Stop, balanced, flops, parse_size, with_type};
use std::process::ExitCode;

/// Y[p, q, r] = sum of X[i, j, k]·A[i, p]·B[j, q]·C[k, r], as a pipeline of three products.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example tucker -- --mesh 2x2x2 --print explain
  mpirun -n 8 target/release/examples/tucker --size 50,40,30,8,7,6 --type f64")]
struct Arguments {
    /// Extents of i, j, k and of p, q, r; they need not divide.
    #[arg(long, value_parser = parse_size::<6>("i, j, k, p, q and r", "96,80,64,16,12,8"), value_name = "I,J,K,P,Q,R",
        default_value = "96,80,64,16,12,8", allow_hyphen_values = true)]
    size: Size<6>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|arguments: Arguments| with_type!(arguments.options.dtype(), T => run::<T>(&arguments)))
}

fn run<T: Number>(Arguments { size, options }: &Arguments) -> Result<(), Stop> {
    let Size([d0, d1, d2, r0, r1, r2]) = *size;
    let mesh = options.mesh("tucker", ["x", "y", "z"], 8, balanced)?;
    let [x, y, z] = mesh.axes();
    vars!(i, j, k, p, q, r, io, jo, ko, po, qo, ii, ji, ki, pi, qi);
    let along_i = kernel! {
        fn along_i(X: [T; d0, d1, d2], A: [T; d0, r0]) -> U: [T; r0, d1, d2] { U[p, j, k] += X[i, j, k] * A[i, p] }
    };
    let along_i = along_i
        .distribute([i, j, k], [io, jo, ko], [ii, ji, ki], &mesh)
        .shard("X", [i.at(x), j.at(y), k.at(z)])
        .shard("A", [i.at(x).at([y, z])])
        .shard("U", [p.at(x), j.at(y), k.at(z)])
        .tensorize([p, ji, ki, ii]);
    let along_j = kernel! {
        fn along_j(U: [T; r0, d1, d2], B: [T; d1, r1]) -> V: [T; r0, r1, d2] { V[p, q, k] += U[p, j, k] * B[j, q] }
    };
    let along_j = along_j
        .distribute([p, j, k], [po, jo, ko], [pi, ji, ki], &mesh)
        .shard("U", [p.at(x), j.at(y), k.at(z)])
        .shard("B", [j.at(y).at([x, z])])
        .shard("V", [p.at(x), q.at(y), k.at(z)])
        .tensorize([pi, q, ki, ji]);
    let along_k = kernel! {
        fn along_k(V: [T; r0, r1, d2], C: [T; d2, r2]) -> Y: [T; r0, r1, r2] { Y[p, q, r] += V[p, q, k] * C[k, r] }
    };
    let along_k = along_k
        .distribute([p, q, k], [po, qo, ko], [pi, qi, ki], &mesh)
        .shard("V", [p.at(x), q.at(y), k.at(z)])
        .shard("C", [k.at(z).at([x, y])])
        .shard("Y", [p.at(x), q.at(y), r.at(z)])
        .tensorize([pi, qi, r, ki]);
    let stages = options.lower_all([&along_i, &along_j, &along_k])?;
    let [first, second, third] = &stages;
    let pipeline = Pipeline::new().stage(first, ["X", "A"], "U").stage(second, ["U", "B"], "V");
    let tucker = pipeline.stage(third, ["V", "C"], "Y").build()?;

    polyshard::spmd(mesh.size(), |world| {
        options.begin(world, &[first, second, third])?;
        let input = |nth: u64, name: &str| {
            DistArray::from_fn(world, tucker.sharding(name), |index| options.element::<T>(nth, index))
        };
        let (x, a, b, c) = (input(0, "X")?, input(1, "A")?, input(2, "B")?, input(3, "C")?);
        let flops = stages.iter().map(flops).sum();
        let y = options.time(world, flops, || tucker.run(world, &[&x, &a, &b, &c]))?;
        if let Some([x, a, b, c, y]) = options.gather(world, [&x, &a, &b, &c, &y])? {
            options.check(&[&x, &a, &b, &c], &y, d0 + d1 + d2, |inputs| {
                let u = reference(first.kernel(), &inputs[..2], None)?;
                let v = reference(second.kernel(), &[&u, inputs[2]], None)?;
                reference(third.kernel(), &[&v, inputs[3]], None)
            })?;
        }
        Ok(())
    })?;
    Ok(())
}
