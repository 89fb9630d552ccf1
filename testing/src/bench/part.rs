//! The command line of a benchmark: one part per call, and the flags that cargo adds.

use clap::{Parser, Subcommand};

// The text of `--help` begins with the documentation of the parts.
#[derive(Parser)]
struct Cli<P: Subcommand> {
    /// The flag of `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
    /// The flag of `cargo test --benches`.
    #[arg(long, hide = true)]
    test: bool,
    #[command(subcommand)]
    part: Option<P>,
}

/// Reads the command line; prints a message if it names no part, as when cargo runs a benchmark on its own.
pub fn part<P: Subcommand>() -> Option<P> {
    let part = Cli::parse().part;
    if part.is_none() {
        println!("nothing to do without a part; `scripts/bench` runs them all, `--help` lists them");
    }
    part
}
