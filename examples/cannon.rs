//! Cannon's algorithm: blocks of A move on by one rank along rows, blocks of B along columns.
//!
//! L. Cannon, "A Cellular Computer to Implement the Kalman Filter Algorithm", Montana State University, 1969.
//! Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example cannon -- --home plain --print explain
//! mpirun -n 9 target/release/examples/cannon --mesh 3x3 --size 500,300,700
//! ```

mod common;

use common::{Algorithm, Size};
use polyshard::prelude::*;
use std::process::ExitCode;

fn schedule<T: polyshard::Element>(mesh: &Mesh, size: Size, home: Home) -> Schedule {
    let matmul = kernel! {
        fn cannon(A: [T; size.m, size.k], B: [T; size.k, size.n]) -> C: [T; size.m, size.n] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let [x, y] = mesh.axes();
    let cannon = matmul
        .distribute([m, n], [mo, no], [mi, ni], mesh)
        .divide(k, ko, ki, y.extent)
        .reorder([mo, no, ko, mi, ni, ki])
        .rotate(ko, [mo, no]);
    // The first step of a skewed home is local; from plain blocks it takes a permutation. Each operand is
    // skewed around its own axis: on a mesh that is not square, B does not fit the steps and is exchanged.
    let cannon = match home {
        Home::Skewed => cannon
            .shard("A", [m.at(x), k.at((x + y) % y.extent as i64)])
            .shard("B", [k.at((x + y) % x.extent as i64), n.at(y)]),
        Home::Plain => cannon.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)]),
    };
    cannon.shard("C", [m.at(x), n.at(y)]).communicate("A", ko).communicate("B", ko).tensorize([mi, ni, ki])
}

/// C = A·B by Cannon's algorithm, 1969.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo run --release --example cannon -- --home plain --print explain
  mpirun -n 4 target/release/examples/cannon --mesh 2x2 --size 50,30,70 --out C.npy")]
struct Cannon {
    /// Where the blocks of A and B are before the program starts.
    #[arg(long, value_enum, default_value_t = Home::Skewed)]
    home: Home,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Home {
    /// Block (x, y) of the matrix on rank (x, y).
    Plain,
    /// Where the first step needs them: row x of A's blocks moved on by x, column y of B's by y.
    Skewed,
}

impl Algorithm for Cannon {
    const NAME: &'static str = "cannon";

    fn schedule<T: polyshard::Element>(&self, mesh: &Mesh, size: Size) -> Schedule {
        schedule::<T>(mesh, size, self.home)
    }
}

fn main() -> ExitCode {
    common::main::<Cannon>()
}
