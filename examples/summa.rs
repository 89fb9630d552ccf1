//! SUMMA: at step `ko` each rank gets one panel of A along its row and one panel of B along its column.
//!
//! R. van de Geijn and J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", Concurrency:
//! Practice and Experience 9(4), 1997. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example summa -- --print program
//! mpirun -n 6 target/release/examples/summa --mesh 2x3 --size 500,300,700 --type f64
//! ```

mod common;

use common::{Algorithm, Size};
use polyshard::prelude::*;
use std::process::ExitCode;

fn schedule<T: polyshard::Element>(mesh: &Mesh, size: Size) -> Schedule {
    let matmul = kernel! {
        fn summa(A: [T; size.m, size.k], B: [T; size.k, size.n]) -> C: [T; size.m, size.n] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let [x, y] = mesh.axes();
    // A is cut along k by y, B by x: with a common multiple of steps every panel has one owner.
    let steps = least_common_multiple(x.extent, y.extent);
    matmul
        .distribute([m, n], [mo, no], [mi, ni], mesh)
        .divide(k, ko, ki, steps)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
        .tensorize([mi, ni, ki])
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    (1..=b).map(|factor| a * factor).find(|multiple| multiple % b == 0).expect("a * b is a multiple of b")
}

/// C = A·B by SUMMA, van de Geijn and Watts 1997.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo run --release --example summa -- --print program
  mpirun -n 6 target/release/examples/summa --mesh 2x3 --size 50,30,70 --type f64")]
struct Summa {}

impl Algorithm for Summa {
    const NAME: &'static str = "summa";

    fn schedule<T: polyshard::Element>(&self, mesh: &Mesh, size: Size) -> Schedule {
        schedule::<T>(mesh, size)
    }
}

fn main() -> ExitCode {
    common::main::<Summa>()
}
