//! The benchmark of redistribution, one part per call; `scripts/bench` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `move` | seconds of each way to redistribute a matrix, and of copying a tile, in turns |
//! | `slabs` | the same for the move between slabs that `fft3d` makes |
//! | `memory` | the peak memory of a rank compared with the plan's figure |
//! | `plan` | seconds to plan random problems |
//! | `table` | the table, from the lines printed by the other parts and ScaLAPACK's driver |
//!
//! The parts are separate processes: ScaLAPACK is a C program, and peak memory can be measured only once per process.
//! All print lines of one form, see [`polyshard_testing::bench::record`].

mod memory;
mod planning;
mod problem;
mod table;
mod time;
mod ways;

use clap::{Args, Subcommand, ValueEnum};
use polyshard::runtime::Transport;
use polyshard_testing::bench::part;
use problem::{Grid, Problem};

/// Measures redistribution.
#[derive(Subcommand)]
enum Part {
    /// Times the ways to redistribute a matrix of `f64`, in turns.
    Move {
        #[command(flatten)]
        problem: MatrixProblem,
        /// Timed runs of each, after one that is not timed.
        #[arg(long, default_value_t = 1)]
        runs: usize,
    },
    /// Times the move between slabs of complex `f64`, in turns.
    Slabs {
        /// The number of ranks.
        #[arg(long)]
        ranks: usize,
        /// The extent of each of three dimensions.
        #[arg(long)]
        size: usize,
        /// Timed runs of each, after one that is not timed.
        #[arg(long, default_value_t = 1)]
        runs: usize,
    },
    /// Measures the peak memory of the ranks.
    Memory {
        #[command(flatten)]
        problem: MatrixProblem,
        /// The transport.
        #[arg(long)]
        way: Way,
    },
    /// Times the search for plans of random problems.
    Plan {
        /// The number of problems of each kind.
        #[arg(long, default_value_t = 1000)]
        count: usize,
    },
    /// Prints the table of the lines on standard input.
    Table,
}

/// A matrix, and its grids before and after.
#[derive(Args)]
struct MatrixProblem {
    /// Ranks over rows and columns before, as `2x2`.
    #[arg(long)]
    from: Grid,
    /// Ranks over rows and columns after: all of them over one of the two.
    #[arg(long)]
    to: Grid,
    /// The number of rows, and of columns.
    #[arg(long)]
    size: usize,
}

impl MatrixProblem {
    fn problem(self) -> polyshard::Result<Problem> {
        Problem::new(self.from, self.to, vec![self.size; 2], self.size.to_string())
    }
}

/// One of the two transports.
#[derive(Clone, Copy, ValueEnum)]
enum Way {
    Messages,
    Shared,
}

impl From<Way> for Transport {
    fn from(way: Way) -> Self {
        match way {
            Way::Messages => Self::Messages,
            Way::Shared => Self::Shared,
        }
    }
}

fn main() -> polyshard::Result<()> {
    match part() {
        None => Ok(()),
        Some(Part::Move { problem, runs }) => time::ways(&problem.problem()?, runs),
        Some(Part::Slabs { ranks, size, runs }) => time::ways(&Problem::slabs(ranks, size)?, runs),
        Some(Part::Memory { problem, way }) => memory::measure(&problem.problem()?, way.into()),
        Some(Part::Plan { count }) => {
            planning::measure(count);
            Ok(())
        }
        Some(Part::Table) => {
            table::print();
            Ok(())
        }
    }
}
