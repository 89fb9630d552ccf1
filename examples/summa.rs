//! SUMMA: at step `ko` each rank receives one panel of A along its row and one panel of B along its column.
//!
//! R. van de Geijn and J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", Concurrency:
//! Practice and Experience 9(4), 1997. Schedule after Yadav, Aiken and Kjolstad, "DISTAL", PLDI 2022.
//!
//! ```text
//! cargo run --release --example summa -- --print program
//! mpirun -n 6 target/release/examples/summa --mesh 2x3 --size 500,300,700 --type f64
//! ```

use clap::{Parser, ValueEnum};
use polyshard::launched_ranks;
use polyshard::prelude::*;
use polyshard::runtime::{NpyFile, Output};
use polyshard::source::{SourceOptions, rust_source};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// C = A·B by SUMMA, van de Geijn and Watts 1997.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example summa -- --print program
  mpirun -n 6 target/release/examples/summa --mesh 2x3 --size 50,30,70 --type f64")]
struct Args {
    /// Ranks along x and y, as 2x2 or x=2,y=2 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["x", "y"]))]
    mesh: Option<Mesh>,
    /// Extents m, k and n; they need not divide [default: those of the files, or 512,2048,1024].
    #[arg(long, value_name = "M,K,N", value_delimiter = ',')]
    size: Vec<usize>,
    /// Element type: f32, f64, i32 or i64 [default: that of the files, or f32].
    #[arg(long = "type", value_name = "TYPE")]
    dtype: Option<DType>,
    /// Fetch panels this many steps ahead, while earlier ones are multiplied.
    #[arg(long, default_value_t = 0, value_name = "STEPS")]
    ahead: usize,
    /// Read A from this `.npy` file, each rank its own part [default: random elements].
    #[arg(long, value_name = "FILE")]
    a: Option<PathBuf>,
    /// Read B from this `.npy` file [default: random elements].
    #[arg(long, value_name = "FILE")]
    b: Option<PathBuf>,
    /// Write C to this `.npy` file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print this instead of running.
    #[arg(long, value_enum)]
    print: Option<Print>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Print {
    /// The program of one rank, as pseudo-code.
    Program,
    /// The program as Rust source.
    Source,
    /// Each transfer with its pattern and the reason.
    Explain,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    start(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

/// Determines the size and the element type, and runs.
fn start(args: &Args) -> Result<(), Box<dyn Error>> {
    let open = |path: &Option<PathBuf>| path.as_ref().map(NpyFile::open).transpose();
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let extent = |file: &Option<NpyFile>, dim: usize| file.as_ref()?.shape().get(dim).copied();
    let size = match args.size[..] {
        [] => [
            extent(&a, 0).unwrap_or(512),
            extent(&a, 1).or(extent(&b, 0)).unwrap_or(2048),
            extent(&b, 1).unwrap_or(1024),
        ],
        [m, k, n] => [m, k, n],
        _ => return Err("`--size` takes m, k and n, such as 50,30,70".into()),
    };
    let dtype = args.dtype.or(a.or(b).map(|file| file.dtype())).unwrap_or(DType::F32);
    match dtype {
        DType::F32 => run::<f32>(args, size),
        DType::F64 => run::<f64>(args, size),
        DType::I32 => run::<i32>(args, size),
        DType::I64 => run::<i64>(args, size),
        DType::I8 | DType::Bf16 => Ok(dtype.native()?),
    }
}

fn run<T: Element>(args: &Args, [rows, inner, columns]: [usize; 3]) -> Result<(), Box<dyn Error>> {
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["x", "y"], launched_ranks().unwrap_or(4)));
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn summa(A: [T; rows, inner], B: [T; inner, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    // A is cut along k by y, B by x: if the number of steps is a common multiple, every panel has one owner.
    let steps = (1..=y.extent).map(|factor| factor * x.extent).find(|steps| steps.is_multiple_of(y.extent));
    let summa = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, steps.expect("the product of both is one"))
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko);
    let summa = if args.ahead == 0 { summa } else { summa.pipeline(ko, args.ahead) };
    let program = summa.tensorize([mi, ni, ki]).lower()?;
    match args.print {
        None => {}
        Some(Print::Program) => polyshard::exit(0, program),
        Some(Print::Source) => polyshard::exit(0, rust_source(&program, &SourceOptions::default())),
        Some(Print::Explain) => polyshard::exit(0, program.explain()),
    }

    polyshard::spmd(mesh.size(), |world| {
        if let Some(out) = args.out.as_ref().filter(|_| world.is_root()) {
            // Check the output before spending time, and never overwrite an input.
            Output::new(out)?.other_than([&args.a, &args.b].into_iter().flatten().map(PathBuf::as_path))?;
        }
        let input = |name: &str, path: &Option<PathBuf>, seed| match path {
            Some(path) => DistArray::<T>::read_npy(world, path, program.sharding(name)),
            None => DistArray::from_fn(world, program.sharding(name), |index| T::random(seed, index)),
        };
        let (a, b) = (input("A", &args.a, 1)?, input("B", &args.b, 2)?);
        let start = Instant::now();
        let c = program.run(world, &[&a, &b])?;
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        if let Some(out) = &args.out {
            c.to_npy(world, out)?;
        }
        let tolerance = if T::DTYPE.is_float() { 1e-4 } else { 0.0 };
        let error = program.verify(world, &[&a, &b], &[&c], tolerance)?;
        if world.is_root() {
            println!("{seconds:.6} s, {received} bytes received by rank 0");
            println!("largest error against the sequential reference: {error:e}");
        }
        Ok(())
    })?;
    Ok(())
}
