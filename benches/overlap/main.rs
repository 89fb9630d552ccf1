//! The benchmark of overlap, one part per call; `scripts/bench overlap` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `nodes` | matrix products pipelined and not, on MPI's ranks or on threads by messages, against computing and communicating alone; pipelined by slices and with a progress thread |
//! | `emulated` | the same, time steps whose interior is computed first, and such with one halo for several, on emulated ports so slow that communicating alone takes a given part of computing alone |
//! | `rounds` | time steps of a stencil, and conjugate gradients, against the same without communication |
//! | `levels` | collectives at once and in stages, inside of programs on emulated machines of two levels |
//! | `broadcast` | a panel that passes from rank to rank over emulated ports, against the time on the wire |

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
    /// Times products on the ranks that there are, by messages.
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
    /// Times collectives at once and in stages on emulated machines of two levels.
    Levels {
        /// The extents of the matrix that moves.
        #[arg(long, default_value_t = 512)]
        size: usize,
        /// Timed runs, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// On the ranks that there are, which are on this many nodes.
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
