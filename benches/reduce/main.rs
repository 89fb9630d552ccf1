//! The benchmark of reductions, one part per call; `scripts/bench` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `synthesis` | seconds to find all programs of hierarchies of two and three levels |
//! | `programs` | seconds of every program of every reduction of a placed mesh, run on emulated nodes and simulated |
//! | `table` | the tables, from the lines printed by the other parts |
//!
//! The lines are those of the other benchmarks, see
//! [`polyshard_testing::bench::record`].

mod cases;
mod order;
mod programs;
mod synthesis;
mod table;

use cases::Extents;
use clap::Subcommand;
use polyshard_testing::bench::part;

/// Measures reductions.
#[derive(Subcommand)]
enum Part {
    /// Times the search for programs.
    Synthesis {
        /// Timed runs of each, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Times all programs of all reductions over axes of these meshes, in turns, on 2 emulated nodes.
    Programs {
        /// Ranks per node.
        #[arg(long)]
        inside: usize,
        /// How much slower the nodes' ports are than the devices' inside.
        #[arg(long, default_value_t = 10.0)]
        factor: f64,
        /// The meshes, as `8` or `2x4`: all their placements, but reductions of the same groups once.
        #[arg(long, value_delimiter = ',')]
        meshes: Vec<Extents>,
        /// Seconds that one all-reduce of the arrays should take, by which their length is chosen.
        #[arg(long, default_value_t = 0.05)]
        direct: f64,
        /// Timed runs of each, after one that is not timed.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Prints the tables of the lines on standard input.
    Table,
}

fn main() -> polyshard::Result<()> {
    match part() {
        None => {}
        Some(Part::Synthesis { runs }) => synthesis::measure(runs),
        Some(Part::Programs { inside, factor, meshes, direct, runs }) => {
            let machine = cases::nodes(inside, factor);
            for case in cases::reductions(&machine, &meshes) {
                programs::measure(&machine, &case, case.elements(&machine, direct), runs)?;
            }
        }
        Some(Part::Table) => table::print(),
    }
    Ok(())
}
