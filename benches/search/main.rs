//! The benchmark of the search, one part per call; `scripts/bench search` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `time` | the chosen and the other priced schedules of each kernel, predicted and measured, on MPI's ranks or threads; by name, the worst pair in wrong order |
//! | `emulated` | the same on two emulated nodes of four ranks, whose ports are slow, without idle ranks |
//! | `files` | the schedules of `examples/poly`, compared with schedules chosen for the same kernels |
//! | `memory` | the peak memory of a rank while a schedule runs, compared with its program's figure |
//! | `words` | words that the chosen schedule moves relative to the lower bound, if words take all the time |
//! | `find` | seconds of searches, for kernels and for a sequence, and of lowering a schedule with and without proofs |

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
        /// Maximum number of schedules of a kernel that are timed.
        #[arg(long, default_value_t = 8)]
        schedules: usize,
        /// Extents are divided by this.
        #[arg(long, default_value_t = 1)]
        scale: usize,
        /// Only this kernel, with the predicted and measured times of each schedule.
        #[arg(long)]
        kernel: Option<String>,
    },
    /// Times the schedules of `examples/poly` and those chosen for the same kernels, in turns.
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
        /// Maximum number of schedules of a kernel that are timed.
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
