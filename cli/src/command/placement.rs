//! `polyshard placement`: the placements of a mesh on the levels of a machine, and the best for a workload.
//!
//! The planner lists and times them; this module handles arguments and output.

mod traffic;

use crate::axes;
use crate::command::files;
use crate::command::hardware::Hardware;
use crate::command::mesh::numbers;
use crate::command::print::{self, listed, without_nulls};
use crate::error::{CliError, Result};
use crate::numbers::whole;
use polyshard::draw;
use polyshard::layout::joined;
use polyshard::machine::units::{counted, seconds, table};
use polyshard::machine::{Collective, Machine};
use polyshard::planner::placement::{Ranked, Traffic, best, count, matrices};
use polyshard::planner::reduce::ReduceOptions;
use serde_json::json;
use std::path::PathBuf;

/// Limits on devices, and on levels and axes.
const DEVICES: usize = 1 << 20;
const LEVELS: usize = 8;
/// Limits on the placements to list, and to time.
const LISTED: u128 = 100_000;
const TIMED: u128 = 2_000;

/// Arguments of `polyshard placement`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard placement --machine a100 --mesh data=8,tensor=2,pipe=4 \\
      --traffic 'all-reduce:data:1e9; all-to-all:tensor:2e8' --draw placements.svg
  polyshard placement --machine v100 --hierarchy 2,8 --mesh 4x4 --traffic all-gather:0,1:1e8 --top 3
  polyshard placement --hierarchy 4,16 --mesh 8x2x4 --json")]
pub struct Arguments {
    /// Counts of the machine's levels, outermost first: 4,16 is 4 nodes of 16 devices [default: those of the machine].
    #[arg(long, value_name = "4,16", allow_hyphen_values = true)]
    hierarchy: Option<String>,
    /// The mesh: the extents of its axes, as 8x2x4 or data=8,tensor=2,pipe=4.
    #[arg(long, value_name = "8x2x4", allow_hyphen_values = true)]
    mesh: String,
    /// A collective of the workload, by which placements are ranked: operation, axes by name or number, and the bytes
    /// that each rank holds before it. Repeat it, or separate several with `;`.
    #[arg(long, value_name = "all-reduce:0:1e9", value_delimiter = ';')]
    traffic: Vec<String>,
    #[command(flatten)]
    hardware: Hardware,
    /// List only the first N.
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    top: Option<usize>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Draw which devices communicate along each axis.
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
}

/// Runs the command and returns the text to print.
///
/// # Errors
/// If the machine, the axes or the traffic are invalid.
pub fn placement(arguments: &Arguments) -> Result<String> {
    files::check(arguments.draw.as_deref())?;
    let given = arguments.hierarchy.as_deref().map(|text| numbers("hierarchy", text, "4,16")).transpose()?;
    let mesh = axes::mesh(&arguments.mesh, |nth| nth.to_string())?;
    let (axes, names) = (mesh.extents(), mesh.as_slice().iter().map(|axis| axis.name.to_string()).collect::<Vec<_>>());
    let machine = arguments.hardware.machine(given.as_deref())?;
    let hierarchy = machine.as_ref().map(Machine::hierarchy).or(given);
    let hierarchy = hierarchy.ok_or_else(|| {
        let give = "give `--machine a100` or a file, or its levels alone, as `--hierarchy 4,16`";
        CliError::missing("no machine to place the mesh on", give)
    })?;
    if machine.is_none() && !arguments.traffic.is_empty() {
        return Err(CliError::missing("no machine to time the traffic on", "give `--machine a100` or a file"));
    }
    let workload = arguments.traffic.iter().map(|text| traffic::traffic(text, &names));
    let workload = workload.collect::<Result<Vec<_>>>()?;
    check(&hierarchy, &axes, if workload.is_empty() { LISTED } else { TIMED })?;
    let levels = levels(machine.as_ref(), &hierarchy);
    let mut found = Found { levels, mesh: arguments.mesh.clone(), axes, names, machine, workload, ranked: Vec::new() };
    found.ranked = match &found.machine {
        Some(machine) if !found.workload.is_empty() => {
            let sums = found.workload.iter().any(|traffic| traffic.operation == Collective::AllReduce);
            // A placement may cross all levels. Programs are searched for all-reduces only.
            let crossed = if sums { hierarchy.iter().filter(|&&count| count > 1).count() } else { 0 };
            let max_steps = arguments.hardware.max_steps(crossed)?;
            let algorithm = arguments.hardware.algorithm();
            let options = ReduceOptions { algorithm, max_steps, ..ReduceOptions::default() };
            best(machine, &found.axes, &found.workload, &options)?
        }
        _ => {
            let all = matrices(&hierarchy, &found.axes)?;
            all.into_iter().map(|matrix| Ranked { matrix, each: Vec::new(), seconds: 0.0 }).collect()
        }
    };
    let all = found.ranked.len();
    found.ranked.truncate(listed(arguments.top, usize::MAX, all)?);
    files::draw(arguments.draw.as_deref(), || {
        let matrices = found.ranked.iter().map(|ranked| &ranked.matrix);
        draw::placements(&found.title(), &found.levels, &found.names, matrices)
    })?;
    Ok(if arguments.json { found.json(&hierarchy) + "\n" } else { found.text(arguments, all) })
}

/// The names and counts of levels.
fn levels(machine: Option<&Machine>, hierarchy: &[usize]) -> Vec<(String, usize)> {
    let name = |level: usize| machine.map_or(format!("level{level}"), |machine| machine.levels()[level].name.clone());
    hierarchy.iter().enumerate().map(|(level, &count)| (name(level), count)).collect()
}

/// Checks that there are not too many placements.
fn check(hierarchy: &[usize], axes: &[usize], most: u128) -> Result<()> {
    for (flag, what, sizes) in [("hierarchy", "level", hierarchy), ("mesh", "axis", axes)] {
        if sizes.len() > LEVELS {
            let many = counted(sizes.len(), what);
            let instead = format!("give at most {LEVELS}, and leave out those of extent 1");
            return Err(CliError::refused(format!("`--{flag}` has {many}"), instead));
        }
    }
    // The planner reports overflows.
    let devices = hierarchy.iter().try_fold(1usize, |devices, &count| devices.checked_mul(count));
    if let Some(devices) = devices.filter(|&devices| devices > DEVICES) {
        let what = format!("the hierarchy {hierarchy:?} has {devices} devices");
        return Err(CliError::refused(what, format!("give at most {DEVICES}")));
    }
    match count(hierarchy, axes)? {
        found if found > most => {
            let done = if most == LISTED { "listed" } else { "timed" };
            let found = format!("there are {found} placements of the axes {axes:?} on {hierarchy:?}");
            Err(CliError::refused(format!("{found}, but at most {most} can be {done}"), "join axes or levels"))
        }
        _ => Ok(()),
    }
}

/// The placements, and the problem that they solve.
struct Found {
    levels: Vec<(String, usize)>,
    /// As it is written.
    mesh: String,
    axes: Vec<usize>,
    /// The names of the axes, or their numbers if they have none.
    names: Vec<String>,
    machine: Option<Machine>,
    workload: Vec<Traffic>,
    ranked: Vec<Ranked>,
}

impl Found {
    fn title(&self) -> String {
        let levels = joined(self.levels.iter().map(|(name, count)| counted(count, name)), " x ");
        let machine = self.machine.as_ref().map(|machine| format!("{}: ", machine.name())).unwrap_or_default();
        format!("mesh {} on {machine}{levels}", self.mesh)
    }

    fn json(&self, hierarchy: &[usize]) -> String {
        let ranked = (!self.workload.is_empty()).then_some(&self.ranked);
        let timed =
            |Ranked { matrix, each, seconds }: &Ranked| json!({ "matrix": matrix, "seconds": seconds, "each": each });
        // Best first if there is traffic; the seconds of each collective are in the order given.
        let answer = json!({
            "hierarchy": hierarchy,
            "axes": self.axes,
            "machine": self.machine.as_ref().map(Machine::name),
            "matrices": self.ranked.iter().map(|ranked| &ranked.matrix).collect::<Vec<_>>(),
            "ranked": ranked.map(|ranked| ranked.iter().map(timed).collect::<Vec<_>>()),
        });
        print::json(&without_nulls(answer, &["machine", "ranked"]))
    }

    fn text(&self, arguments: &Arguments, all: usize) -> String {
        let mut text = format!("{}\n", self.title());
        if !self.workload.is_empty() {
            let workload = joined(self.workload.iter().map(|traffic| traffic::describe(traffic, &self.names)), ", ");
            text += &format!("{workload}, by {}\n", arguments.hardware.algorithm());
        }
        let mut head = vec![String::new(), "matrix".into()];
        if !self.workload.is_empty() {
            head.extend(["seconds", "slower"].map(String::from));
            head.extend(self.workload.iter().map(|traffic| traffic::brief(traffic, &self.names)));
        }
        let before = head.len();
        head.extend(self.names.iter().map(|name| format!("axis {name}")));
        let words: Vec<usize> = [1].into_iter().chain(before..head.len()).collect();
        let rows = self.ranked.iter().enumerate().map(|(nth, ranked)| self.row(nth, ranked));
        text += &table(&[head].into_iter().chain(rows).collect::<Vec<_>>(), &words);
        if self.ranked.len() < all {
            text += &format!("and {} more\n", all - self.ranked.len());
        }
        text
    }

    fn row(&self, nth: usize, ranked: &Ranked) -> Vec<String> {
        let timed = !self.workload.is_empty();
        let mark = if nth == 0 && timed { "*" } else { "" };
        let mut row = vec![format!("{mark}{}", nth + 1), ranked.matrix.to_string()];
        if timed {
            let best = self.ranked[0].seconds;
            let slower = if best == 0.0 { "-".into() } else { format!("{:.2}x", ranked.seconds / best) };
            row.extend([seconds(ranked.seconds), slower]);
            row.extend(ranked.each.iter().map(|&each| seconds(each)));
        }
        // The levels that each axis is divided over.
        row.extend(ranked.matrix.rows().iter().map(|factors| {
            let cut = factors.iter().zip(&self.levels).filter(|(factor, _)| **factor > 1);
            let cut = joined(cut.map(|(factor, (name, _))| counted(factor, name)), " x ");
            if cut.is_empty() { "1".into() } else { cut }
        }));
        row
    }
}
