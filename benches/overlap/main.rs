//! The benchmark of overlap, one part per call; `scripts/bench overlap` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `nodes` | matrix products pipelined (by slices, with a progress thread) and not, on MPI's ranks or threads, by messages, vs computing or communicating alone |
//! | `emulated` | the same, and time steps with interior first or wide halos, on emulated ports where communicating takes a given multiple of computing |
//! | `rounds` | time steps of a stencil, and conjugate gradients, compared with the same without communication |
//! | `levels` | collectives as a single call and in stages, inside programs on emulated machines of two levels |
//! | `broadcast` | a panel that passes from rank to rank over emulated ports, compared with the time on the wire |

mod broadcast;
mod levels;
mod products;
mod rounds;

use clap::Subcommand;
use polyshard_testing::bench::part;
use polyshard_testing::bench::products::Grid;

/// Measures overlap.
#[derive(Subcommand)]
enum Part {
    /// Times products on the launched ranks, by messages.
    Nodes {
        /// The grid of ranks.
        #[arg(long, default_value = "1x2")]
        grid: Grid,
        /// The extents of the matrices.
        #[arg(long, default_value_t = 4096)]
        size: usize,
        /// The panels.
        #[arg(long, default_value_t = 16)]
        panels: usize,
        /// Timed runs, after one that is not timed.
        #[arg(long, default_value_t = 7)]
        runs: usize,
    },
    /// Times products on emulated ports.
    Emulated {
        /// The grid of ranks.
        #[arg(long, default_value = "1x2")]
        grid: Grid,
        /// The extents of the matrices.
        #[arg(long, default_value_t = 1536)]
        size: usize,
        /// The panels.
        #[arg(long, default_value_t = 16)]
        panels: usize,
        /// How many times as long communicating alone takes as computing alone.
        #[arg(long, default_value_t = 1.0)]
        ratio: f64,
        /// Timed runs, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Times rounds of stencils and of conjugate gradients.
    Rounds {
        /// The grid of ranks.
        #[arg(long, default_value = "1x2")]
        grid: Grid,
        /// The extent of the square.
        #[arg(long, default_value_t = 4096)]
        size: usize,
        /// The rounds of a run.
        #[arg(long, default_value_t = 100)]
        rounds: u64,
        /// Timed runs, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Times collectives as a single call and in stages on emulated machines of two levels.
    Levels {
        /// The extents of the matrix that moves.
        #[arg(long, default_value_t = 512)]
        size: usize,
        /// Timed runs, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Use the launched ranks, which are on this many nodes.
        #[arg(long)]
        nodes: Option<usize>,
    },
    /// Times broadcasts over emulated ports.
    Broadcast {
        /// Timed runs, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
}

fn main() -> polyshard::Result<()> {
    match part() {
        None => Ok(()),
        Some(Part::Nodes { grid, size, panels, runs }) => products::on_nodes(&grid, size, panels, runs),
        Some(Part::Emulated { grid, size, panels, ratio, runs }) => {
            products::emulated(&grid, size, panels, ratio, runs)?;
            rounds::emulated(&grid, size, 20, ratio, runs)?;
            rounds::wide(&grid, size / 2, runs)
        }
        Some(Part::Rounds { grid, size, rounds, runs }) => rounds::measure(&grid, size, rounds, runs),
        Some(Part::Levels { size, runs, nodes: None }) => levels::compare(size, runs),
        Some(Part::Levels { size, runs, nodes: Some(nodes) }) => levels::on_nodes(nodes, size, runs),
        Some(Part::Broadcast { runs }) => broadcast::compare(runs),
    }
}
