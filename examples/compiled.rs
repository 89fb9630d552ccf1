//! The four algorithms in compiled form: scheduled, proved and emitted as Rust when this file was compiled.
//!
//! An illegal step in one of these chains does not compile. The emitted code runs without isl and without the schedule;
//! both are used here only to show the transfers.
//!
//! ```text
//! cargo run --release --example compiled
//! mpirun -n 4 target/release/examples/compiled
//! ```

use clap::Parser;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

kernel! {
    /// SUMMA: panels of A and of B are broadcast.
    fn summa(A: [f32; 256, 512], B: [f32; 512, 384]) -> C: [f32; 256, 384] {
        C[m, n] += A[m, k] * B[k, n]
    }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, ko, ki, 2)
    .reorder([mo, no, ko, mi, ni, ki])
    .shard(A, m @ x, k @ y)
    .shard(B, k @ x, n @ y)
    .shard(C, m @ x, n @ y)
    .communicate(A, ko)
    .communicate(B, ko)
    .tensorize([mi, ni, ki])
    .expect(A, broadcast(y))
    .expect(B, broadcast(x))
}

kernel! {
    /// PUMMA: panels of B are broadcast, panels of A shift.
    fn pumma(A: [f32; 256, 512], B: [f32; 512, 384]) -> C: [f32; 256, 384] {
        C[m, n] += A[m, k] * B[k, n]
    }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, ko, ki, 2)
    .reorder([mo, no, ko, mi, ni, ki])
    .rotate(ko, [no])
    .shard(A, m @ x, k @ y)
    .shard(B, k @ x, n @ y)
    .shard(C, m @ x, n @ y)
    .communicate(A, ko)
    .communicate(B, ko)
    .tensorize([mi, ni, ki])
    .expect(A, shift(y, 1))
    .expect(B, broadcast(x))
}

kernel! {
    /// Cannon's algorithm from a skewed home: blocks of A and of B shift.
    fn cannon(A: [f32; 256, 512], B: [f32; 512, 384]) -> C: [f32; 256, 384] {
        C[m, n] += A[m, k] * B[k, n]
    }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, ko, ki, 2)
    .reorder([mo, no, ko, mi, ni, ki])
    .rotate(ko, [mo, no])
    .shard(A, m @ x, k @ ((x + y) % 2))
    .shard(B, k @ ((x + y) % 2), n @ y)
    .shard(C, m @ x, n @ y)
    .communicate(A, ko)
    .communicate(B, ko)
    .tensorize([mi, ni, ki])
    .expect(A, shift(y, 1))
    .expect(B, shift(x, 1))
}

kernel! {
    /// AllGather-GEMM: each rank multiplies its columns of A with all of B, panel by panel.
    fn ag_gemm(A: [f32; 256, 512], B: [f32; 256, 768]) -> C: [f32; 512, 768] {
        C[m, n] += A[k, m] * B[k, n]
    }
    mesh(x: 4)
    .distribute([m], [mo], [mi])
    .divide(n, no, ni, 4)
    .reorder([mo, no, mi, ni, k])
    .shard(A, m @ x)
    .shard(B, n @ x)
    .shard(C, m @ x)
    .communicate(B, no)
    .tensorize([mi, ni, k])
    .expect(B, broadcast(x))
}

/// SUMMA, PUMMA, Cannon and AllGather-GEMM in compiled form, on 4 ranks.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example compiled -- --source
  mpirun -n 4 target/release/examples/compiled")]
struct Args {
    /// Print the emitted Rust instead of running it.
    #[arg(long)]
    source: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if args.source {
        polyshard::exit(0, [summa::SOURCE, pumma::SOURCE, cannon::SOURCE, ag_gemm::SOURCE].join("\n"));
    }
    type Compiled = fn(&World, &DistArray<f32>, &DistArray<f32>) -> polyshard::runtime::Result<DistArray<f32>>;
    let compiled: [(Program, Compiled); 4] = [
        (summa::schedule().lower()?, summa::run),
        (pumma::schedule().lower()?, pumma::run),
        (cannon::schedule().lower()?, cannon::run),
        (ag_gemm::schedule().lower()?, ag_gemm::run),
    ];
    polyshard::spmd(4, |world| {
        for (program, run) in &compiled {
            let a = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index))?;
            let b = DistArray::from_fn(world, program.sharding("B"), |index| f32::random(2, index))?;
            let (start, before) = (Instant::now(), world.bytes_received());
            let c = run(world, &a, &b)?;
            let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received() - before);
            let error = program.verify(world, &[&a, &b], &[&c], 1e-4)?;
            if world.is_root() {
                let name = program.kernel().name();
                println!("{name}: {seconds:.6} s, {received} bytes received by rank 0");
                println!("largest error against the sequential reference: {error:e}");
            }
        }
        Ok(())
    })?;
    Ok(())
}
