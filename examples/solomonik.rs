//! The 2.5-D algorithm: c layers of ranks each take a part of the steps of Cannon's algorithm, and their sums meet in the
//! first layer, where A and B lie too.
//!
//! E. Solomonik and J. Demmel, "Communication-optimal parallel 2.5D matrix multiplication and LU factorization
//! algorithms", Euro-Par 2011. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example solomonik -- --mesh 4x4x2 --print explain
//! mpirun -n 8 target/release/examples/solomonik --mesh 2x2x2 --size 500,300,700
//! ```

use polyshard::prelude::*;
use polyshard::reference;
use polyshard_testing::example::{self, Files, Number, Options, Stop, flops, with_type};
use std::process::ExitCode;

/// C = A·B by the 2.5-D algorithm of Solomonik and Demmel 2011; the mesh is q x q x c, with c layers.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  cargo run --release --example solomonik -- --mesh 4x4x2 --print explain
  mpirun -n 8 target/release/examples/solomonik --mesh 2x2x2 --size 50,30,70")]
struct Arguments {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    example::main(|args: Arguments| with_type!(args.files.dtype(&args.options)?, T => run::<T>(&args)))
}

fn run<T: Number>(Arguments { files, options }: &Arguments) -> Result<(), Stop> {
    let [rows, inner, columns] = files.size(["m", "k"], [384, 256, 320])?;
    let mesh = options.mesh("solomonik", ["x", "y", "z"], 8, layers)?;
    let [x, y, z] = mesh.axes();
    let matmul = kernel! {
        fn solomonik(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, kb, kz, kt, ki);
    // Layer z does steps z*q/c and following of Cannon's; at least one step per layer.
    let steps = y.extent.max(z.extent);
    let layer = Mesh::new([x, y].map(|axis| (axis.name, axis.extent)));
    let solomonik = matmul
        .distribute([m, n], [mo, no], [mi, ni], &layer)
        .divide(k, kb, ki, steps)
        .rotate(kb, [mo, no])
        .distribute([kb], [kz], [kt], &Mesh::new([(z.name, z.extent)]))
        .reorder([mo, no, kz, kt, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y), pin(z, 0)])
        .shard("B", [k.at(x), n.at(y), pin(z, 0)])
        .shard("C", [m.at(x), n.at(y), pin(z, 0)])
        .communicate("A", kt)
        .communicate("B", kt)
        .tensorize([mi, ni, ki]);
    let program = options.lower(&solomonik)?;

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

/// Layers as large as squares allow: q x q x c.
fn layers(ranks: usize) -> [usize; 3] {
    let q = (1..=ranks.isqrt()).rev().find(|q| ranks.is_multiple_of(q * q)).unwrap_or(1);
    [q, q, ranks / (q * q)]
}
