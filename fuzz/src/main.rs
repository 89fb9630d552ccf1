//! Feeds mutated inputs to the parts of Polyshard that read files, texts and command lines.
//!
//! ```text
//! polyshard-fuzz                      10^6 mutated inputs for each target
//! polyshard-fuzz --target types --inputs 20000 --seed 7
//! polyshard-fuzz --inputs 0           only what is in seeds/ and found/
//! ```
//!
//! An input must be accepted or refused. It fails if the target panics, takes too long, or uses too much memory; a
//! minimised version is then written to the folder of `--out`, with a note of the failure. Inputs that failed once are
//! in `found/`, and every run begins with them and with the valid ones in `seeds/`, which must be accepted.
//!
//! | file | holds |
//! | --- | --- |
//! | `targets` | the functions that read inputs |
//! | `mutate` | mutation of inputs, and minimisation |
//! | `worker` | a process that feeds one target |
//! | `supervise` | supervision of these processes |

mod mutate;
mod supervise;
mod targets;
mod worker;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use targets::{TARGETS, Target};

/// Feeds mutated inputs to the code that reads files, texts and command lines.
#[derive(Clone, Parser)]
struct Options {
    /// Feed only these targets: npy, machines, traces, types, products, reductions, meshes, programs.
    #[arg(long, value_parser = target, value_delimiter = ',')]
    target: Vec<&'static Target>,
    /// Number of mutated inputs for each target.
    #[arg(long, default_value_t = 1_000_000)]
    inputs: u64,
    /// Seed: runs with the same seed try the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time limit for one input in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Memory limit for one input in MiB.
    #[arg(long, default_value_t = 256)]
    memory: usize,
    /// Folder for failing inputs.
    #[arg(long, default_value = "target/fuzz", value_name = "FOLDER")]
    out: PathBuf,
    /// Feed the target in this process, starting at this input.
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
