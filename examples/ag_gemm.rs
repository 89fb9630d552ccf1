//! AllGather-GEMM: every rank computes its rows of C from its columns of A and, panel by panel, all of B.
//!
//! The product of a tensor-parallel layer: A and B are sharded along m and n, and B is gathered while it is
//! multiplied. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example ag_gemm -- --mesh 3 --size 50,30,70 --type i64
//! mpirun -n 4 target/release/examples/ag_gemm
//! ```

mod common;

use common::{Algorithm, Size};
use polyshard::prelude::*;
use std::process::ExitCode;

fn schedule<T: polyshard::Element>(mesh: &Mesh, size: Size) -> Schedule {
    let matmul = kernel! {
        fn ag_gemm(A: [T; size.k, size.m], B: [T; size.k, size.n]) -> C: [T; size.m, size.n] {
            C[m, n] += A[k, m] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni);
    let [x] = mesh.axes();
    matmul
        .distribute([m], [mo], [mi], mesh)
        .divide(n, no, ni, x.extent)
        .reorder([mo, no, mi, ni, k])
        .shard("A", [m.at(x)])
        .shard("B", [n.at(x)])
        .shard("C", [m.at(x)])
        .communicate("B", no)
        .tensorize([mi, ni, k])
}

/// C = transposed A·B with B gathered panel by panel.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo run --release --example ag_gemm -- --mesh 3 --size 50,30,70 --type i64
  mpirun -n 4 target/release/examples/ag_gemm --size 50,30,70")]
struct AgGemm {}

impl Algorithm for AgGemm {
    const NAME: &'static str = "ag_gemm";
    const SIZE: Size = Size { m: 2048, k: 1024, n: 4096 };
    const MESH: &'static [usize] = &[4];
    const TRANSPOSED: bool = true;

    fn schedule<T: polyshard::Element>(&self, mesh: &Mesh, size: Size) -> Schedule {
        schedule::<T>(mesh, size)
    }
}

fn main() -> ExitCode {
    common::main::<AgGemm>()
}
