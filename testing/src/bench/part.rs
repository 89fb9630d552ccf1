//! The command line of a benchmark: one part per call, and what cargo adds.

use clap::{Parser, Subcommand};

// The text of `--help` begins with the documentation of the parts.
#[derive(Parser)]
struct Cli<P: Subcommand> {
    /// What `cargo bench` says.
    #[arg(long, hide = true)]
    bench: bool,
    /// What `cargo test --benches` says.
    #[arg(long, hide = true)]
    test: bool,
    #[command(subcommand)]
    part: Option<P>,
}

/// Reads the command line; says so if it has no part, as when cargo starts a benchmark by itself.
pub fn part<P: Subcommand>() -> Option<P> {
    let part = Cli::parse().part;
    if part.is_none() {
        println!("nothing to do without a part; `scripts/bench` runs them all, `--help` lists them");
    }
    part
}
