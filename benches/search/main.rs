//! The benchmark of the search, one part per call; `scripts/bench search` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `time` | what is chosen for each kernel, against the other schedules that were priced, predicted and measured, on MPI's ranks or on threads; by name, the pair that differs most of those in the wrong order |
//! | `emulated` | the same on two emulated nodes of four ranks, whose ports are slow, without idle ranks |
//! | `files` | the schedules of `examples/poly` against what is chosen for the same kernels |
//! | `memory` | the most that a rank has while a schedule runs, against what its program states |
//! | `words` | words that the choice moves against the lower bound, where words take all the time |
//! | `find` | seconds that searches take, of kernels and of a sequence, and that a schedule takes to be lowered, proved and not |

mod files;
mod kernels;
mod memory;
mod time;
mod words;

use clap::Subcommand;
use polyshard_testing::bench::part;

/// Measures the search.
#[derive(Subcommand)]
enum Part {
    /// Times the schedules of each kernel, in turns.
    Time {
        /// The ranks.
        #[arg(long)]
        ranks: usize,
        /// Timed runs of each schedule, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// The most schedules of a kernel that are timed.
        #[arg(long, default_value_t = 8)]
        schedules: usize,
        /// Extents are divided by this.
        #[arg(long, default_value_t = 1)]
        scale: usize,
        /// Of this kernel alone, and of each schedule what was predicted and measured.
        #[arg(long)]
        kernel: Option<String>,
    },
    /// Times the schedules of `examples/poly` and what is chosen for the same kernels, in turns.
    Files {
        /// The ranks.
        #[arg(long)]
        ranks: usize,
        /// Timed runs of each, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Times the schedules of each kernel on emulated nodes.
    Emulated {
        /// Timed runs of each schedule, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// The most schedules of a kernel that are timed.
        #[arg(long, default_value_t = 8)]
        schedules: usize,
        /// Extents are divided by this.
        #[arg(long, default_value_t = 2)]
        scale: usize,
    },
    /// Measures the memory of the processes that run one kernel.
    Memory {
        /// The ranks.
        #[arg(long)]
        ranks: usize,
        /// The kernel's name.
        kernel: String,
    },
    /// Compares words with bounds.
    Words,
    /// Times searches.
    Find,
}

fn main() -> polyshard::Result<()> {
    match part() {
        None => Ok(()),
        Some(Part::Time { ranks, runs, schedules, scale, kernel }) => {
            time::measure(ranks, runs, schedules, scale, kernel.as_deref())
        }
        Some(Part::Files { ranks, runs }) => files::compare(ranks, runs),
        Some(Part::Emulated { runs, schedules, scale }) => time::emulate(runs, schedules, scale),
        Some(Part::Memory { ranks, kernel }) => memory::measure(ranks, &kernel),
        Some(Part::Words) => words::compare(),
        Some(Part::Find) => words::find(),
    }
}
