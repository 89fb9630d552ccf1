//! The benchmark of contractions, one part per call; `scripts/bench contract` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `leaves` | seconds of nests against a pointwise kernel, and of products of three tensors against a matrix product |
//! | `words` | words that the busiest rank receives, counted, next to the formula of the grid and the lower bound of any algorithm |
//! | `lower` | seconds of `lower()` on 64 ranks, and the number of ranks that a rank of a stencil examines |
//! | `table` | the table, from the lines printed by the other parts and numpy |
//!
//! All print lines of one form, see [`polyshard_testing::bench::record`].

mod leaves;
mod lowering;
mod schedules;
mod table;
mod words;

use clap::Subcommand;
use polyshard_testing::bench::part;

/// Measures contractions.
#[derive(Subcommand)]
enum Part {
    /// Times leaves on one rank, in turns.
    Leaves {
        /// Rows and columns of the matrices of nests.
        #[arg(long, default_value_t = 4096)]
        size: usize,
        /// The extent of the tensors of three dimensions.
        #[arg(long, default_value_t = 512)]
        extent: usize,
        /// Columns of the matrices that these tensors are multiplied with.
        #[arg(long, default_value_t = 64)]
        columns: usize,
        /// Timed runs of each, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Counts the words that the busiest rank receives, on threads.
    Words {
        /// Divisor of extents of 4096 and more.
        #[arg(long, default_value_t = 1)]
        scale: usize,
    },
    /// Times `lower()`, and counts the ranks that a rank of a stencil examines.
    Lower {
        /// Runs of each, of which the median is printed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Prints the table of the lines on standard input.
    Table,
}

fn main() -> polyshard::Result<()> {
    match part() {
        None => Ok(()),
        Some(Part::Leaves { size, extent, columns, runs }) => leaves::measure(size, extent, columns, runs),
        Some(Part::Words { scale }) => words::measure(scale),
        Some(Part::Lower { runs }) => {
            lowering::measure(runs)?;
            lowering::count_partners()
        }
        Some(Part::Table) => {
            table::print();
            Ok(())
        }
    }
}
