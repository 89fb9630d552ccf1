//! PUMMA: panels of B are broadcast along columns, panels of A move on by one rank along rows.
//!
//! J. Choi, J. Dongarra and D. Walker, "PUMMA: Parallel Universal Matrix Multiplication Algorithms on
//! Distributed Memory Concurrent Computers", Concurrency: Practice and Experience 6(7), 1994. Schedule after
//! Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example pumma -- --mesh 3x3 --print explain
//! mpirun -n 4 target/release/examples/pumma --type f64
//! ```

mod common;

use common::{Algorithm, Size};
use polyshard::prelude::*;
use std::process::ExitCode;

fn schedule<T: polyshard::Element>(mesh: &Mesh, size: Size) -> Schedule {
    let matmul = kernel! {
        fn pumma(A: [T; size.m, size.k], B: [T; size.k, size.n]) -> C: [T; size.m, size.n] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let [x, y] = mesh.axes();
    // As many steps as A has panels: each goes around its row once.
    matmul
        .distribute([m, n], [mo, no], [mi, ni], mesh)
        .divide(k, ko, ki, y.extent)
        .reorder([mo, no, ko, mi, ni, ki])
        .rotate(ko, [no])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
        .tensorize([mi, ni, ki])
}

/// C = A·B by PUMMA, Choi, Dongarra and Walker 1994.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo run --release --example pumma -- --mesh x=3,y=3 --print explain
  mpirun -n 4 target/release/examples/pumma --size 50,30,70 --type f64")]
struct Pumma {}

impl Algorithm for Pumma {
    const NAME: &'static str = "pumma";

    fn schedule<T: polyshard::Element>(&self, mesh: &Mesh, size: Size) -> Schedule {
        schedule::<T>(mesh, size)
    }
}

fn main() -> ExitCode {
    common::main::<Pumma>()
}
