//! `polyshard reduce`: all programs of a reduction, fastest first, with the groups of ranks in each step.
//!
//! The planner finds and times programs; this module handles arguments, output and `--run`.
//!
//! Tests: `cli/tests/it/placement/reductions.rs`.

mod trial;

use crate::command::files;
use crate::command::hardware::Hardware;
use crate::command::mesh::{matrix, numbers};
use crate::command::print::{self, listed, without_nulls};
use crate::error::{CliError, Result};
use crate::numbers::whole;
use polyshard::draw;
use polyshard::layout::joined;
use polyshard::machine::units::{counted, scaled, seconds, table};
use polyshard::machine::{Algorithm, Machine};
use polyshard::planner::placement::{ParallelismMatrix, count, matrices};
use polyshard::planner::reduce::{Hierarchy, Ranked, ReduceOptions, best};
use serde_json::json;
use std::collections::HashSet;
use std::path::PathBuf;
use trial::Trial;

/// Number of programs that a table lists by default.
const LISTED: usize = 16;

/// Limit on the matrices that the error for an unfit one suggests.
const SUGGESTED: u128 = 8;

/// Arguments of `polyshard reduce`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard reduce --matrix '[[2,4],[2,4]]' --reduce 0 --machine a100 --bytes 1e9 --draw steps.svg
  polyshard reduce --matrix '[[2,2],[1,2]]' --reduce 0,1 --machine v100 --bytes 1e6 --algorithm tree --top 4 --run
  polyshard reduce --matrix '[[4,4]]' --reduce 0 --machine a100 --bytes 1e9 --program AllReduce --json")]
pub struct Arguments {
    /// The placement: one row per axis, one column per level, outermost first, as `polyshard placement` lists them.
    #[arg(long, value_name = "[[1,4],[4,4]]")]
    matrix: String,
    /// Counts of the machine's levels [default: the products of the matrix's columns].
    #[arg(long, value_name = "4,16", allow_hyphen_values = true)]
    hierarchy: Option<String>,
    /// Axes to sum over, by number.
    #[arg(long, value_name = "0,2", allow_hyphen_values = true)]
    reduce: String,
    /// Bytes that each rank holds before the reduction.
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    bytes: String,
    #[command(flatten)]
    hardware: Hardware,
    /// List the N fastest [default: 16 in a table, all as JSON].
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    top: Option<usize>,
    /// The program to explain and draw: its number in the table, or its collectives, such as AllReduce or Reduce-Broadcast,
    /// which selects the fastest with these [default: the fastest of all].
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Run the listed programs on one thread per device, and check every sum.
    #[arg(long)]
    run: bool,
    /// Number of elements per rank for `--run`.
    #[arg(long, value_name = "N", value_parser = whole::<usize>, default_value = "1003", allow_negative_numbers = true)]
    elements: usize,
    /// Draw which ranks communicate in each step of the program.
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
}

/// A reduction, and its programs, fastest first.
struct Reduction {
    machine: Machine,
    matrix: ParallelismMatrix,
    axes: Vec<usize>,
    hierarchy: Hierarchy,
    bytes: f64,
    programs: Vec<Ranked>,
}

/// Runs the command and returns the text to print.
///
/// # Errors
/// If the placement, the machine or the axes are invalid, or the program is unknown.
pub fn reduce(arguments: &Arguments) -> Result<String> {
    files::check(arguments.draw.as_deref())?;
    let reduction = Reduction::new(arguments)?;
    let shown = match &arguments.program {
        Some(name) => reduction.find(name)?,
        None => 0,
    };
    let default = if arguments.json { usize::MAX } else { LISTED };
    let listed = listed(arguments.top, default, reduction.programs.len())?;
    files::draw(arguments.draw.as_deref(), || {
        draw::reduction(&reduction.title(arguments), &reduction.machine, &reduction.programs[shown])
    })?;
    let trial = match arguments.run {
        true => Some(trial::run(&reduction, &reduction.programs[..listed], arguments.elements)?),
        false => None,
    };
    if arguments.json {
        return Ok(reduction.json(arguments.hardware.algorithm(), listed, trial.as_ref()) + "\n");
    }
    Ok(reduction.text(arguments, listed, shown) + &trial.map(|trial| trial.to_string()).unwrap_or_default())
}

impl Reduction {
    fn new(arguments: &Arguments) -> Result<Self> {
        let matrix = matrix(&arguments.matrix)?;
        if let Some(text) = &arguments.hierarchy {
            let hierarchy = numbers("hierarchy", text, "4,16")?;
            if hierarchy != matrix.hierarchy() {
                let (own, instead) = (matrix.hierarchy(), fitting(&hierarchy, &matrix.axes()));
                let what = format!("the matrix {matrix} is for the hierarchy {own:?}, not for {hierarchy:?}");
                return Err(CliError::refused(what, instead));
            }
        }
        let axes = numbers("axes to reduce", &arguments.reduce, "0,2")?;
        let bytes = arguments.bytes.trim().parse::<f64>();
        let what = || format!("`{}` as bytes", arguments.bytes);
        let bytes = bytes.map_err(|_| CliError::unreadable(what(), "a number, such as 1e9"))?;
        let machine = arguments.hardware.machine(Some(&matrix.hierarchy()))?;
        let missing = || CliError::missing("no machine to time programs on", "give `--machine a100` or a file");
        let machine = machine.ok_or_else(missing)?;
        let hierarchy = Hierarchy::on_machine(&machine, &matrix, &axes)?;
        // The root level is not crossed.
        let max_steps = arguments.hardware.max_steps(hierarchy.counts().len() - 1)?;
        let options =
            ReduceOptions { max_steps, algorithm: arguments.hardware.algorithm(), ..ReduceOptions::default() };
        let programs = best(&machine, &matrix, &axes, bytes, &options)?;
        Ok(Self { machine, matrix, axes, hierarchy, bytes, programs })
    }

    /// The position of the fastest program of this name, or of this number.
    fn find(&self, name: &str) -> Result<usize> {
        let all = self.programs.len();
        if let Ok(number) = name.parse::<usize>() {
            let position = number.checked_sub(1).filter(|&position| position < all);
            let known = || format!("the programs are 1 to {all}");
            return position.ok_or_else(|| CliError::unknown(format!("program {number}"), known()));
        }
        let is = |ranked: &Ranked| {
            ranked.program.to_string().eq_ignore_ascii_case(name)
                || ranked.program.describe(&self.hierarchy).eq_ignore_ascii_case(name)
        };
        self.programs.iter().position(is).ok_or_else(|| {
            let mut seen = HashSet::new();
            let names = self.programs.iter().map(|ranked| ranked.program.to_string());
            let mut names: Vec<String> = names.filter(|name| seen.insert(name.clone())).collect();
            let more = if names.len() > LISTED { ", .." } else { "" };
            names.truncate(LISTED);
            CliError::unknown(format!("program `{name}`"), format!("there are {}{more}", names.join(", ")))
        })
    }

    /// The speed of a program relative to the direct reduction, unless it takes no time.
    fn speed(&self, ranked: &Ranked) -> Option<f64> {
        let seconds = ranked.simulation.total();
        let direct = self.programs.iter().find(|ranked| ranked.program.is_direct())?;
        (seconds > 0.0).then(|| direct.simulation.total() / seconds)
    }

    /// The first `listed` programs, fastest first, and the outcome of their run. Groups list ranks of the machine in the order of their
    /// data; the first rank of each is its root.
    fn json(&self, algorithm: Algorithm, listed: usize, run: Option<&Trial>) -> String {
        let program = |ranked: &Ranked| {
            let steps = ranked.lowered.steps().iter().zip(&ranked.simulation.steps);
            let steps = steps.map(|(step, time)| {
                let (op, groups, bottleneck) = (step.collective, &step.groups, &time.bottleneck);
                json!({ "op": op, "groups": groups, "seconds": time.total(), "bottleneck": bottleneck })
            });
            json!({
                "name": ranked.program.to_string(),
                "program": ranked.program.describe(&self.hierarchy),
                "steps": steps.collect::<Vec<_>>(),
                "seconds": ranked.simulation.total(),
                "speed": self.speed(ranked),
            })
        };
        let answer = json!({
            "machine": self.machine.name(),
            "hierarchy": self.matrix.hierarchy(),
            "matrix": self.matrix,
            "reduce": self.axes,
            "bytes": self.bytes,
            "algorithm": algorithm,
            "total": self.programs.len(),
            "programs": self.programs[..listed].iter().map(program).collect::<Vec<_>>(),
            "run": run,
        });
        print::json(&without_nulls(answer, &["run"]))
    }

    fn title(&self, arguments: &Arguments) -> String {
        let (matrix, machine, bytes) = (&self.matrix, &self.machine, scaled(self.bytes, "B"));
        let (axes, algorithm) = (joined(&self.axes, ","), arguments.hardware.algorithm());
        format!("{bytes} per rank summed over axis {axes} of {matrix} on {machine}, by {algorithm}")
    }

    fn text(&self, arguments: &Arguments, listed: usize, shown: usize) -> String {
        let all = self.programs.len();
        let mut text = format!("{}\n", self.title(arguments));
        let programs = if all == 1 { "one program".into() } else { counted(all, "program") };
        text += &format!("levels {}; {programs}, speed against AllReduce in one step\n", self.hierarchy);
        let mut rows = vec![["", "seconds", "speed", "program"].map(String::from).to_vec()];
        for (nth, ranked) in self.programs[..listed].iter().enumerate() {
            let mark = if nth == shown { "*" } else { "" };
            let speed = self.speed(ranked).map_or("-".into(), |speed| format!("{speed:.2}x"));
            let program = if ranked.program.instructions.is_empty() {
                ranked.program.to_string()
            } else {
                ranked.program.describe(&self.hierarchy)
            };
            rows.push(vec![format!("{mark}{}", nth + 1), seconds(ranked.simulation.total()), speed, program]);
        }
        text += &table(&rows, &[3]);
        if listed < all {
            text += &format!("and {} more\n", all - listed);
        }
        let steps = draw::reduction_panels(&self.programs[shown]);
        if steps.is_empty() {
            return text + "nothing to do: along these axes there is one rank\n";
        }
        text += &format!("steps of program {}:\n", shown + 1);
        for (nth, panel) in steps.iter().enumerate() {
            let first = panel.groups.first().map(|group| ranks(group)).unwrap_or_default();
            text += &format!("{} {}, the first {first}: {}\n", nth + 1, panel.title, panel.note);
        }
        text
    }
}

/// The matrices that place these axes on a hierarchy, or the reason why none exists.
fn fitting(hierarchy: &[usize], axes: &[usize]) -> String {
    let found = match count(hierarchy, axes) {
        Ok(1..=SUGGESTED) => matrices(hierarchy, axes),
        Ok(many) => return format!("{many} other matrices fit; `polyshard placement` lists them"),
        Err(why) => Err(why),
    };
    match found {
        Ok(found) => format!("{} would fit", joined(found, " or ")),
        Err(why) => why.to_string(),
    }
}

/// The first ranks of a group.
fn ranks(group: &[usize]) -> String {
    format!("{{{}{}}}", joined(group.iter().take(8), " "), if group.len() > 8 { " .." } else { "" })
}
