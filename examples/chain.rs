//! Two products in sequence: Y = X·W1 by columns, Z = Y·W2 by rows, with one redistribution of Y between them.
//!
//! Each product is local to its rank. The second product needs Y in rows, but the first leaves it in columns, so the
//! sequence plans a redistribution: an all-to-all. N. Rink, A. Paszke, D. Vytiniotis and G. Schmid, "Memory-efficient
//! array redistribution through portable collective communication", arXiv 2112.01075, Listing 3.
//!
//! ```text
//! cargo run --release --example chain -- --mesh 32 --explain
//! mpirun -n 4 target/release/examples/chain --size 50,70,30,90
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::prelude::*;
use std::error::Error;
use std::time::Instant;

/// Z = X·W1·W2, where Y = X·W1 is redistributed from columns to rows.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example chain -- --mesh 32 --explain
  mpirun -n 4 target/release/examples/chain --size 50,70,30,90")]
struct Args {
    /// Ranks, as 4 or devs=4 [default: 4; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["devs"]))]
    mesh: Option<Mesh>,
    /// Extents m, k, h and n of X[m, k], W1[k, h] and W2[h, n]; the mesh need not divide them.
    #[arg(long, value_name = "M,K,H,N", value_delimiter = ',', default_value = "32,1024,2048,256")]
    size: Vec<usize>,
    /// Explain each stage and how Y moves between them, instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[rows, inner, hidden, columns] = &args.size[..] else {
        return Err("`--size` takes m, k, h and n, such as 50,70,30,90".into());
    };
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["devs"], launched_ranks().unwrap_or(4)));
    let [devs] = mesh.axes();
    vars!(m, n, k, mo, mi, no, ni);
    let first = kernel! {
        fn first(X: [f32; rows, inner], W1: [f32; inner, hidden]) -> Y: [f32; rows, hidden] {
            Y[m, n] += X[m, k] * W1[k, n]
        }
    };
    let by_columns = first
        .distribute([n], [no], [ni], &mesh)
        .shard("W1", [n.at(devs)])
        .shard("Y", [n.at(devs)])
        .tensorize([m, ni, k])
        .lower()?;
    let second = kernel! {
        fn second(Y: [f32; rows, hidden], W2: [f32; hidden, columns]) -> Z: [f32; rows, columns] {
            Z[m, n] += Y[m, k] * W2[k, n]
        }
    };
    let by_rows = second
        .distribute([m], [mo], [mi], &mesh)
        .shard("Y", [m.at(devs)])
        .shard("Z", [m.at(devs)])
        .tensorize([mi, n, k])
        .lower()?;
    let chain =
        Sequence::new().stage(&by_columns, ["X", "W1"], "Y").stage(&by_rows, ["Y", "W2"], "Z").keep("Y").build()?;
    if args.explain {
        polyshard::exit(0, chain.explain());
    }

    polyshard::spmd(mesh.size(), |world| {
        let x = DistArray::from_fn(world, chain.sharding("X"), |index| f32::random(1, index))?;
        let w1 = DistArray::from_fn(world, chain.sharding("W1"), |index| f32::random(2, index))?;
        let w2 = DistArray::from_fn(world, chain.sharding("W2"), |index| f32::random(3, index))?;
        let start = Instant::now();
        let outputs = chain.prepare(world)?.run_all(&[&x, &w1, &w2])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        let [(_, y), (_, z)] = &outputs[..] else { unreachable!("Y is kept, and Z the result") };
        let error = chain.verify(world, &[&x, &w1, &w2], &[y, z], 1e-4)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
