//! Feeds mutated inputs to whatever of Polyshard reads files, texts and command lines.
//!
//! ```text
//! polyshard-fuzz                      10^6 mutated inputs for each target
//! polyshard-fuzz --target types --inputs 20000 --seed 7
//! polyshard-fuzz --inputs 0           only what is in seeds/ and found/
//! ```
//!
//! An input must be accepted or refused. It fails the target if that panics, takes too long, or holds too much memory;
//! what is left of it when it is made short is then in the folder of `--out`, with a note of what happened. Inputs that
//! failed once are in `found/`, and every run begins with them and with the valid ones in `seeds/`, which must be
//! accepted.
//!
//! | file | holds |
//! | --- | --- |
//! | `targets` | what reads inputs |
//! | `mutate` | inputs from others, and shorter ones |
//! | `worker` | a process that feeds one target |
//! | `supervise` | processes that feed it, and what becomes of them |

mod mutate;
mod supervise;
mod targets;
mod worker;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use targets::{TARGETS, Target};

/// Feeds mutated inputs to whatever reads files, texts and command lines.
#[derive(Clone, Parser)]
struct Options {
    /// Feed these only: npy, machines, traces, types, products, reductions, meshes, programs.
    #[arg(long, value_parser = target, value_delimiter = ',')]
    target: Vec<&'static Target>,
    /// The mutated inputs for each target.
    #[arg(long, default_value_t = 1_000_000)]
    inputs: u64,
    /// Runs of one seed try the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The most seconds for one input.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The most MiB that one input may take.
    #[arg(long, default_value_t = 256)]
    memory: usize,
    /// Where inputs that fail are left.
    #[arg(long, default_value = "target/fuzz", value_name = "FOLDER")]
    out: PathBuf,
    /// Feed the target in this process, from this input on.
    #[arg(long, hide = true)]
    worker: Option<u64>,
    /// Feed one input, in this process.
    #[arg(long, hide = true)]
    one: Option<PathBuf>,
}

fn target(name: &str) -> Result<&'static Target, String> {
    let names = TARGETS.iter().map(|target| target.name).collect::<Vec<_>>();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.ok_or_else(|| format!("no target `{name}`; the targets are {}", names.join(", ")))
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.target.is_empty() {
        options.target = TARGETS.iter().collect();
    }
    let done = match (options.worker, &options.one) {
        (Some(from), _) => worker::feed(&options, from).map(|()| true),
        (None, Some(path)) => worker::feed_one(&options, path).map(|()| true),
        (None, None) => supervise::run(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
