//! The benchmark of distributed matrix products, one part per call; `scripts/bench` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `product` | seconds of each algorithm and of its bound, in turns, on MPI's ranks or on threads |
//! | `leaf` | seconds of a product on one core, as leaves compute it |
//! | `memory` | the memory of a rank compared with the program's figure |
//! | `lower` | seconds of `lower()`, by size of the mesh |
//! | `table` | the table, from the lines printed by the other parts and ScaLAPACK's driver |
//!
//! The parts are separate processes: ScaLAPACK is a C program, and peak memory can be measured only once per process.
//! All print lines of one form, see [`polyshard_testing::bench::record`].

mod bound;
mod leaf;
mod lowering;
mod memory;
mod product;
mod table;

use clap::{Args, Subcommand, ValueEnum};
use polyshard::runtime::Transport;
use polyshard_testing::bench::part;
use polyshard_testing::bench::products::{Algorithm, Grid, Sizes};

/// Measures distributed matrix products.
#[derive(Subcommand)]
enum Part {
    /// Times the algorithms and their bounds, in turns.
    Product(Problem),
    /// Times products on one core.
    Leaf {
        /// The extent of rows, columns and terms.
        #[arg(long)]
        size: usize,
        /// The element type.
        #[arg(long = "type")]
        dtype: Type,
        /// Timed runs.
        #[arg(long)]
        runs: usize,
    },
    /// Measures the memory of one algorithm's ranks.
    Memory {
        #[command(flatten)]
        problem: Problem,
        /// Whether data move by messages even on a node.
        #[arg(long)]
        messages: bool,
    },
    /// Times `lower()`.
    Lower {
        /// Runs of each, of which the median is printed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Prints the table of the lines on standard input.
    Table,
}

/// A product, and how it is computed.
#[derive(Args)]
struct Problem {
    /// The ranks, as `2x2`.
    #[arg(long)]
    grid: Grid,
    /// The extents `m,k,n`, or one for all.
    #[arg(long)]
    size: Sizes,
    /// The element type.
    #[arg(long = "type")]
    dtype: Type,
    /// The algorithms.
    #[arg(long, value_delimiter = ',', default_value = "summa,pumma,cannon,ag_gemm")]
    algorithms: Vec<Algorithm>,
    /// Timed runs of each, after one that is not timed.
    #[arg(long, default_value_t = 1)]
    runs: usize,
}

/// An element type.
#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F32,
    F64,
}

fn main() -> polyshard::Result<()> {
    match part() {
        None => Ok(()),
        Some(Part::Product(problem)) => match problem.dtype {
            Type::F32 => product::measure::<f32>(&problem),
            Type::F64 => product::measure::<f64>(&problem),
        },
        Some(Part::Leaf { size, dtype, runs }) => {
            match dtype {
                Type::F32 => leaf::measure::<f32>(size, "f32", runs),
                Type::F64 => leaf::measure::<f64>(size, "f64", runs),
            }
            Ok(())
        }
        Some(Part::Memory { problem, messages }) => {
            let transport = if messages { Transport::Messages } else { Transport::Auto };
            match problem.dtype {
                Type::F32 => memory::measure::<f32>(&problem, transport),
                Type::F64 => memory::measure::<f64>(&problem, transport),
            }
        }
        Some(Part::Lower { runs }) => lowering::measure(runs),
        Some(Part::Table) => {
            table::print();
            Ok(())
        }
    }
}
