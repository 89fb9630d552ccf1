//! The benchmark of loop nests, one part per call; `scripts/bench nests` runs it all.
//!
//! | part | prints |
//! | --- | --- |
//! | `time` | seconds of pointwise kernels and stencils: executed, compiled, and as a hand-written loop, on MPI's ranks or on threads |
//! | `inputs` | seconds of reading an input of each length in place and by messages |
//! | `table` | the table, from the lines printed by the other parts |
//!
//! All print lines of one form, see [`polyshard_testing::bench::record`].

mod contest;
mod hand;
mod inputs;
mod kernels;
mod table;

use clap::Subcommand;
use polyshard_testing::bench::part;

/// Measures loop nests.
#[derive(Subcommand)]
enum Part {
    /// Times the contestants of each kernel, in turns.
    Time {
        /// The ranks, 1 or 2.
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
        ranks: u8,
        /// The element type, `f64` or `f32`.
        #[arg(long = "type", value_parser = ["f64", "f32"])]
        dtype: String,
        /// Timed runs of each, after one that is not timed.
        #[arg(long, default_value_t = 7)]
        runs: usize,
    },
    /// Times programs that read an input of each length, in place and by messages, in turns.
    Inputs {
        /// The ranks.
        #[arg(long)]
        ranks: usize,
        /// Timed batches of runs of each, after one that is not timed.
        #[arg(long, default_value_t = 21)]
        runs: usize,
    },
    /// Prints the table of the lines on standard input.
    Table,
}

fn main() -> polyshard::Result<()> {
    match part() {
        None => Ok(()),
        Some(Part::Time { ranks, dtype, runs }) => match (&dtype[..], ranks) {
            ("f64", 1) => contest::measure(1, &kernels::f64_on_1(), runs),
            ("f64", _) => contest::measure(2, &kernels::f64_on_2(), runs),
            (_, 1) => contest::measure(1, &kernels::f32_on_1(), runs),
            (_, _) => contest::measure(2, &kernels::f32_on_2(), runs),
        },
        Some(Part::Inputs { ranks, runs }) => inputs::measure(ranks, runs),
        Some(Part::Table) => {
            table::print();
            Ok(())
        }
    }
}
