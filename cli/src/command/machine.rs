//! `polyshard machine`: shows machines, and detects or measures this one.
//!
//! `polyshard-machine` describes machines and the runtime detects them; this module handles arguments and output. Under an MPI launcher all
//! processes run this code; only the first prints and writes. Tests: `cli/tests/it/machine.rs`.

pub mod show;

use crate::command::files;
use crate::command::hardware::find;
use crate::command::print;
use crate::error::{CliError, Result};
use crate::numbers::{count, size};
use crate::progress::Shown;
use crate::say::remark;
use clap::Subcommand;
use polyshard::draw::{Curve, DrawError, Timing, chart};
use polyshard::lab::{MeasureOptions, Measured, Noise, Point, Progress, Survey, measure_with, survey};
use polyshard::machine::units::counted;
use polyshard::machine::{Machine, PRESETS};
use polyshard::runtime::{Output, World, launched_ranks};
use polyshard::{Result as RunResult, spmd};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `polyshard machine`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard machine list
  polyshard machine show a100
  mpirun -n 4 polyshard machine detect --out machine.toml

The format of a machine file; `show NAME --toml` prints one to start from:
  name = 'mine'
  shared_memory = 'core'       # optional: the cores of one node read each other's memory
  [device]
  memory_bandwidth = 2e10      # bytes per second of a device, while all devices use their memory
  memory_capacity = 8000000000 # bytes
  flops = { f32 = 1e11, f64 = 5e10, i32 = 2e10, i64 = 5e9 } # operations per second, by type
  nests = { f64 = 4e9 }        # optional: the same for loops that run element by element
  [[level]]                    # one for each level, the outermost first
  name = 'node'
  count = 4
  interconnect = 'switch'      # or 'ring', 'line', { torus = [2, 2] }
  bandwidth = 1.25e10          # bytes per second in each direction, of one port or link
  latency = 2e-6               # seconds per message
  shared_ports = 1             # optional: number of ports that all devices inside share
  [[level]]
  name = 'core'
  count = 16
  interconnect = 'switch'
  bandwidth = 5e9
  latency = 5e-7
`detect` and `measure` write more keys; all of those are optional.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the presets.
    #[command(after_help = "Example:
  polyshard machine list --json")]
    List {
        /// Print a JSON array of machines instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Show a machine: its levels, links and devices.
    #[command(after_help = "Examples:
  polyshard machine show v100
  polyshard machine show a100 --toml
  polyshard machine show machine.toml --json")]
    Show {
        /// A preset, as `list` prints them, or a TOML file.
        #[arg(value_name = "NAME|FILE.toml")]
        machine: String,
        /// Print one JSON object instead of text, with the keys of the TOML file.
        #[arg(long)]
        json: bool,
        /// Print the machine as TOML, as a starting point for one of your own.
        #[arg(long, conflicts_with = "json")]
        toml: bool,
    },
    /// Detect this machine quickly: one device per rank.
    #[command(after_help = "Examples:
  polyshard machine detect --ranks 2
  mpirun -n 4 polyshard machine detect --out machine.toml")]
    Detect {
        #[command(flatten)]
        ranks: Ranks,
        /// Write the machine to a TOML file.
        #[arg(long, value_name = "FILE.toml")]
        out: Option<PathBuf>,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Measure this machine carefully, and report how well the model predicts the measured times.
    ///
    /// Times messages and collectives by size, matrix products by type, copies, and reads of other ranks' memory, on all ranks at once. It takes
    /// tens of seconds; run it on an idle machine. Progress and warnings go to standard error.
    #[command(after_help = "Examples:
  polyshard machine measure --ranks 2 --quick --sizes 1KiB,64KiB,1MiB
  mpirun -n 4 polyshard machine measure --quick --out machine.toml --plot machine.svg")]
    Measure {
        #[command(flatten)]
        ranks: Ranks,
        /// Message sizes; for a collective, the size of its larger side [default: powers of two from 1KiB to 64MiB].
        #[arg(long, value_delimiter = ',', value_name = "1KiB,64KiB,4MiB", value_parser = size, allow_hyphen_values = true)]
        sizes: Vec<usize>,
        /// Take few samples: enough to try the command, too few for reliable figures.
        #[arg(long)]
        quick: bool,
        /// Write the machine to a TOML file.
        #[arg(long, value_name = "FILE.toml")]
        out: Option<PathBuf>,
        /// Plot measured and predicted seconds by size.
        #[arg(long, value_name = "FILE.svg")]
        plot: Option<PathBuf>,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Ranks {
    /// Number of ranks: threads or, under `mpirun`, its processes [default: all processes, or 2 threads].
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    ranks: Option<usize>,
}

/// Runs the command and returns the text to print.
pub(crate) fn machine(arguments: &Arguments) -> Result<String> {
    match &arguments.command {
        Command::List { json } => list(*json),
        Command::Show { machine, json, toml } => {
            let machine = find(machine, None)?;
            Ok(match (json, toml) {
                (true, _) => print::json(&machine) + "\n",
                (_, true) => machine.to_toml(),
                _ => show::machine(&machine),
            })
        }
        Command::Detect { ranks, out, json } => {
            let found = ranks.run(&[out], |world| Ok(survey(world)?))?;
            let Some(Survey { machine, topology, noise }) = found else { return Ok(String::new()) };
            warn(&noise, &machine);
            save(out.as_deref(), &machine)?;
            Ok(if *json { print::json(&machine) + "\n" } else { format!("{topology}\n{}", show::machine(&machine)) })
        }
        Command::Measure { ranks, sizes, quick, out, plot, json } => {
            let options = options(sizes, *quick);
            let shown = Shown::new("measuring");
            let run = |world: &World| {
                let progress = |progress: &Progress| {
                    if world.is_root() {
                        shown.show(progress.done as u64, progress.total as u64, &progress.next);
                    }
                };
                Ok(measure_with(world, &options, progress)?)
            };
            let Some(measured) = ranks.run(&[out, plot], run)? else { return Ok(String::new()) };
            drop(shown);
            warn(&measured.noise, &measured.machine);
            save(out.as_deref(), &measured.machine)?;
            if let Some(path) = plot {
                files::save(path, &measurements(&measured).map_err(CliError::Plot)?)?;
            }
            let errors = measured.errors();
            Ok(match json {
                true => {
                    let mut answer = json!(measured);
                    answer["errors"] = json!(errors);
                    print::json(&answer) + "\n"
                }
                false => show::measured(&measured, &errors),
            })
        }
    }
}

/// Prints warnings about unreliable figures on standard error.
fn warn(noise: &Noise, machine: &Machine) {
    for warning in noise.warnings(machine) {
        remark(&format_args!("warning: {warning}"));
    }
}

fn list(json: bool) -> Result<String> {
    let machines: Vec<Machine> = PRESETS.iter().map(|name| find(name, None)).collect::<Result<_>>()?;
    Ok(if json { print::json(&machines) + "\n" } else { show::list(&machines) })
}

fn options(sizes: &[usize], quick: bool) -> MeasureOptions {
    let mut options = MeasureOptions::default();
    if quick {
        let sizes = (10..=20).step_by(2).map(|power| 1 << power).collect();
        let round = Duration::from_micros(300);
        options = MeasureOptions { sizes, passes: 1, round, rounds: 2, budget: round, rows: 64, copy: 1 << 24 };
    }
    if !sizes.is_empty() {
        options.sizes = sizes.to_vec();
    }
    options
}

impl Ranks {
    /// Runs `f` on all ranks and returns its result on the first, or `None` in a process without the first rank. `files` will be written
    /// later.
    fn run<R: Send>(&self, files: &[&Option<PathBuf>], f: impl Fn(&World) -> RunResult<R> + Sync) -> Result<Option<R>> {
        let ranks = self.ranks.or_else(launched_ranks).unwrap_or(2);
        let results = spmd(ranks, |world| {
            if world.is_root() {
                // Before time is spent on measuring.
                files.iter().filter_map(|file| file.as_deref()).try_for_each(|file| Output::new(file).map(drop))?;
            }
            Ok(world.is_root().then_some(f(world)?))
        });
        Ok(results?.into_iter().flatten().next())
    }
}

/// Returns a picture of the calls that all ranks take part in.
fn measurements(measured: &Measured) -> Result<String, DrawError> {
    let ranks = measured.topology.ranks();
    let points: Vec<_> = measured.points.iter().filter(|point| point.ranks == ranks).collect();
    let timing =
        |point: &&Point| Timing { bytes: point.bytes as f64, measured: point.seconds, predicted: point.predicted };
    let curve = |call: &[&Point]| Curve { name: call[0].call.to_string(), timings: call.iter().map(timing).collect() };
    let curves: Vec<_> = points.chunk_by(|left, right| left.call == right.call).map(curve).collect();
    let title = format!("{}: measured (dots) and predicted from the other sizes (lines)", counted(ranks, "rank"));
    chart(&title, &curves)
}

fn save(path: Option<&Path>, machine: &Machine) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    files::save(path, &machine.to_toml())
}
