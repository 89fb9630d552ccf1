//! `polyshard redistribute`: plans, prints, runs and draws the redistribution of an array.
//!
//! The planner chooses the plan and the runtime moves data; this module handles arguments and output.

mod batch;
mod judge;
mod problem;
mod trial;
mod uneven;

use crate::command::files;
use crate::command::print::json;
use crate::command::threads::Trial;
use crate::error::Result;
use clap::ArgGroup;
use judge::Judge;
use polyshard::draw::{self, Draw};
use polyshard::machine::units::{self, counted};
use problem::{Problem, Types};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `polyshard redistribute`.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("problem").args(["source", "batch"]).required(true), after_help = "Examples:
  polyshard redistribute --mesh x=4,y=6 '[3{x}12, 2{y}12]' '[2{y}12, 3{x}12]' --run --draw plan.svg
  polyshard redistribute --mesh 2x2 --size I=8,J=16 'A[I_X, J_Y]' 'A[I, J_XY]' --type f32 --ops any
  polyshard redistribute --mesh 8 '[8{x}64, 64]' '[64, 8{x}64]' --latency 1e-6 --bandwidth 1e10 --json
  polyshard redistribute --batch problems.json")]
pub struct Arguments {
    /// Source sharding: for each dimension the tile size, the axes (minor first) and the full size, as '[3{x}12, 8]'; or
    /// 'A[I_X, J]' with `--size`.
    #[arg(requires = "target", requires = "mesh")]
    source: Option<String>,
    /// Target sharding, in the same form.
    target: Option<String>,
    /// Mesh: name and extent of each axis, outermost first; `4x6` is `x=4,y=6`.
    #[arg(long, value_name = "x=4,y=6", allow_hyphen_values = true)]
    mesh: Option<String>,
    /// Sizes of the dimensions of 'A[I_X, J]'.
    #[arg(long, value_name = "I=8,J=16")]
    size: Option<String>,
    /// Plan one problem per line of a file (`-` is standard input), and print one JSON object for each.
    ///
    /// A problem is {"mesh": [["x", 4], ["y", 6]], "source": "[3{x}12, 8]", "target": ".."}, with
    /// "size": [["I", 8], ["J", 16]] if the shardings are of the form 'A[I_X, J]'.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "mesh", "size", "run", "draw"])]
    batch: Option<PathBuf>,
    #[command(flatten)]
    judge: Judge,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Run the plan on one thread per rank, and check every element of every tile.
    #[arg(long)]
    run: bool,
    /// Draw the tile of each rank before and after each step; where tiles are of several sizes, the tiles of the arrays.
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
}

/// A plan as JSON, with its time over the links and its run if requested.
#[derive(Serialize)]
struct Answer<R> {
    #[serde(flatten)]
    report: R,
    /// The time over the given links.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Trial>,
}

/// Runs the command and returns the text to print.
///
/// # Errors
/// If the problem is invalid, or a run ends with wrong tiles.
pub fn redistribute(arguments: &Arguments) -> Result<String> {
    if let Some(path) = &arguments.batch {
        return batch::plan_all(path, &arguments.judge).map(|()| String::new());
    }
    files::check(arguments.draw.as_deref())?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let [mesh, source, target, size] =
        [&arguments.mesh, &arguments.source, &arguments.target, &arguments.size].map(text);
    let [source, target] = match Problem::from_texts(&mesh, source, target, &size)?.types()? {
        Types::Equal(types) => types,
        Types::Uneven(shardings) => {
            let (program, answer) = uneven::answer(&shardings, &arguments.judge, arguments.run)?;
            files::draw(arguments.draw.as_deref(), || program.draw())?;
            let text = || said(program.explain(), answer.seconds, answer.run.as_ref());
            return Ok(if arguments.json { json(&answer) + "\n" } else { text() });
        }
    };
    let dtype = arguments.judge.dtype;
    let plan = arguments.judge.plan(&source, &target)?;
    let program = plan.program("A", dtype);
    let seconds = arguments.judge.seconds(&program)?;
    // Input, output, and at most two tiles in between.
    let elements = [source.tile_len(), target.tile_len(), plan.peak(), plan.peak()];
    let elements = elements.iter().map(|&elements| elements as u128).sum();
    let received = |rank| plan.received(rank) as u64 * dtype.size() as u64;
    let run = || trial::run(&program, elements, |rank| received(rank)..=received(rank));
    let trial = if arguments.run { Some(run()?) } else { None };
    files::draw(arguments.draw.as_deref(), || draw::redistribution(&plan))?;
    if arguments.json {
        return Ok(json(&Answer { report: plan.report(dtype.size()), seconds, run: trial }) + "\n");
    }
    Ok(said(plan.explain(dtype.size()), seconds, trial.as_ref()))
}

/// The plan as text, with the outcome of its run if there was one.
fn said(mut text: String, seconds: Option<f64>, trial: Option<&Trial>) -> String {
    text.extend(seconds.map(|seconds| format!("predicted over the given links: {}\n", units::seconds(seconds))));
    text.extend(
        trial.map(|trial| format!("checked {}\n{trial}; on every rank as planned\n", counted(trial.tiles, "tile"))),
    );
    text
}
