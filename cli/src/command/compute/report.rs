//! The report on a program before it runs, and after.

use super::{Checked, Found, Ran, Written};
use crate::numbers::extents;
use crate::say::remark;
use polyshard::launched_ranks;
use polyshard::layout::joined;
use polyshard::machine::units::{counted, scaled, seconds, table};
use polyshard::planner::cost::Cost;
use polyshard::program::{Pattern, Program};

/// A program and the facts to report about it.
pub(crate) struct Description<'a> {
    pub(crate) program: &'a Program,
    /// The number of available ranks.
    pub(crate) ranks: usize,
    /// The division of the loops, if it was chosen for one kernel.
    pub(crate) grid: Option<String>,
    /// The order of contraction, if it was chosen.
    pub(crate) order: Option<String>,
    /// Optimality gap, unless implied by the others.
    pub(crate) gap: Option<f64>,
    /// The machine that it was chosen for, and its cost there.
    pub(crate) chosen: Option<(&'a Found, &'a Cost)>,
    /// Lower bound on the elements that a rank receives, if known.
    pub(crate) bound: Option<u64>,
}

/// A table of the kernels, the mesh, the transfers and the cost.
pub(crate) fn described(of: &Description<'_>) -> String {
    let Description { program, ranks, grid, order, gap, chosen, bound } = of;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |what: &str, text: String| rows.push(vec![label(what), text]);
    for nest in program.nests() {
        let kernel = &nest.kernel;
        let vars = joined(kernel.vars().iter().map(|var| format!("{} {}", var.name, var.extent)), ", ");
        // The busiest rank's operations times the ranks: a bound on the sum.
        let operations = nest.work().operations as f64 * program.mesh().size() as f64;
        let parts = [kernel.statement(), vars, program.dtype().to_string(), scaled(operations, "operations")];
        row("kernel", joined(parts.iter().filter(|part| !part.is_empty()), ", "));
    }
    let kind = if launched_ranks().is_some_and(|started| started > 1) { "processes" } else { "threads" };
    let used = match (program.mesh().size(), *ranks) {
        (used, all) if used == all => format!("{all} ({kind})"),
        (used, all) => format!("{used} of {all} ({kind})"),
    };
    row("ranks", chosen.map_or(used, |(found, _)| format!("{ranks} ({kind}) on {}", found.machine)));
    if let Some(measured) = chosen.and_then(|(found, _)| found.measured.as_ref()) {
        row("machine", measured.clone());
    }
    match grid {
        Some(grid) => row("grid", grid.clone()),
        None if program.mesh().size() == 1 => row("mesh", "one rank".to_owned()),
        None => row("mesh", program.mesh().to_string()),
    }
    if let Some(order) = order {
        row("order", order.clone());
    }
    if let Some(gap) = gap {
        row("search", sure(*gap));
    }
    for rounds in &program.body().rounds {
        row("repeat", program.shown_rounds(rounds));
    }
    row("moves", moves(program));
    let report = program.report();
    let words = report.traffic_bytes / program.dtype().size() as u64;
    row(
        "words",
        match bound.filter(|bound| *bound > 0) {
            Some(bound) => format!(
                "at most {words} a rank; no algorithm that divides the work evenly moves fewer than {bound}: {:.2}",
                words as f64 / bound as f64
            ),
            None => format!("at most {words} a rank{}", of_stages(program, words)),
        },
    );
    let memory = chosen.map_or_else(|| held(program), |(_, cost)| cost.memory);
    let beside = match program.packed_bytes() {
        0 => String::new(),
        packed => format!(", and up to {} that products of matrices copy", scaled(packed as f64, "B")),
    };
    row("memory", format!("at most {} a rank{beside}", scaled(memory as f64, "B")));
    if let Some((_, cost)) = chosen {
        let copying = cost.copying();
        let moving = (cost.moving() - copying).max(0.0);
        let copying = if copying > 0.0 { format!(", copying {}", seconds(copying)) } else { String::new() };
        let [all, computing, moving] = [cost.seconds(), cost.computing(), moving].map(seconds);
        row("time", format!("{all} predicted: computing {computing}, moving {moving}{copying}"));
    }
    table(&rows, &[0, 1]) + &path(program)
}

/// The label of a line, padded so that the columns before and after a run align.
fn label(word: &str) -> String {
    format!("{word:<7}")
}

/// The optimality gap as text.
pub(crate) fn sure(gap: f64) -> String {
    match gap {
        0.0 => "no other can be faster".to_owned(),
        // A gap of more than all the time is of no use.
        gap if gap > 1.0 => "another may be faster, by an unknown factor: the search ended early".to_owned(),
        gap => {
            format!("another may be faster by up to {:.0} %: the search ended early", (100.0 * gap).ceil())
        }
    }
}

/// Prints the optimality gap on standard error, for commands whose standard output holds only the requested text.
pub(crate) fn remark_gap(gap: f64) {
    if gap > 0.0 {
        remark(&format_args!("{}; raise `--at-most`", sure(gap)));
    }
}

/// Prints hints on standard error. If the schedule was chosen, only those about the statement.
pub(crate) fn remark_hints(program: &Program, is_chosen: bool) {
    let hints = program.hints().iter().filter(|hint| !is_chosen || hint.is_of_statement());
    hints.for_each(|hint| remark(&format_args!("hint: {hint}")));
}

/// The peak bytes of a rank, for a program without a cost.
pub(crate) fn held(program: &Program) -> u64 {
    let report = program.report();
    report.shard_bytes + report.tile_bytes
}

/// The words of several kernels compared with the sum of their lower bounds.
fn of_stages(program: &Program, words: u64) -> String {
    let bounds = program.nests().map(|nest| {
        let [as_they_lie, _] = nest.lower_bounds();
        as_they_lie.elements()
    });
    let several = program.nests().count() > 1 && program.body().rounds.is_empty();
    match bounds.sum::<u64>() {
        // The bounds do not hold for data that one kernel reuses from another.
        least if least > 0 && several && program.nests().all(|nest| nest.kept().next().is_none()) => {
            let ratio = words as f64 / least as f64;
            format!(
                "; the kernels one by one, as their arrays lie and evenly divided, move no fewer than {least}: {ratio:.2}"
            )
        }
        _ => String::new(),
    }
}

/// A table of the pairwise products of leaves with several operands.
fn path(program: &Program) -> String {
    let steps: Vec<_> = program.nests().flat_map(|nest| nest.path()).collect();
    if steps.is_empty() {
        return String::new();
    }
    let mut rows = vec![["step", "product", "each rank takes", "at a time", "by"].map(String::from).to_vec()];
    rows.extend(steps.iter().enumerate().map(|(number, step)| {
        vec![
            (number + 1).to_string(),
            format!("{} = {}", step.result, step.factors.join(" * ")),
            scaled(step.operations as f64, "operations"),
            step.elements.map_or_else(String::new, |elements| counted(elements, "element")),
            if step.is_product { "matrix product" } else { "nest" }.to_owned(),
        ]
    }));
    format!("\n{}", table(&rows, &[1, 4]))
}

fn moves(program: &Program) -> String {
    let of_nests = program.nests().flat_map(|nest| {
        let transfers = nest.transfers.iter().zip(nest.volumes());
        let moved = transfers.filter_map(|(transfer, volume)| {
            let pattern = nest.pattern_of(transfer);
            let times = if volume.times > 1 { format!(" in {} steps", volume.times) } else { String::new() };
            let bytes = scaled(volume.received as f64, "B");
            (pattern != Pattern::Local && transfer.reused.is_none())
                .then(|| format!("{} {pattern}, {bytes}{times}", nest.tensor_name(transfer.tensor)))
        });
        moved.collect::<Vec<_>>()
    });
    let between = program.moves().map(|moved| {
        let [source, target] = [moved.source, moved.target].map(|id| program.array(id));
        format!("{} from {} to {}", source.name, source.sharding, target.sharding)
    });
    let moved = joined(of_nests.chain(between), "; ");
    if moved.is_empty() { "nothing".to_owned() } else { moved }
}

/// The report after a run: time, traffic and result.
pub(crate) fn ran(ran: &Ran, predicted: Option<f64>) -> String {
    let predicted = predicted.map_or_else(String::new, |predicted| {
        // Times of microseconds are all latency, which predictions do not cover well.
        let off = match ran.seconds / predicted {
            ratio if predicted < 1e-4 || ratio >= 10.0 => String::new(),
            ratio => format!(", {:+.0} %", 100.0 * (ratio - 1.0)),
        };
        format!(" ({} predicted{off})", seconds(predicted))
    });
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut row = |what: &str, text: String| rows.push([label(what), text]);
    if !ran.read.is_empty() {
        row("read", joined(ran.read.iter().map(|(name, path)| format!("{name} from {path}")), ", "));
    }
    let rounds = joined(ran.rounds.iter().map(|rounds| counted(rounds, "round")), " and ");
    let rounds = if rounds.is_empty() { rounds } else { format!(", {rounds}") };
    let received = scaled(ran.received as f64, "B");
    let took = seconds(ran.seconds);
    row("ran", format!("{took}{predicted}{rounds}; the first rank received {received}"));
    ran.unended.iter().for_each(|scalar| row("warning", scalar.clone()));
    for (path, dtype) in &ran.converted {
        row("convert", format!("{path} from {dtype} to {}", ran.dtype));
    }
    if let Some(Checked { rows: [rows, all], error, of }) = &ran.checked {
        let (all, error) = (counted(all, "row"), if *error == 0.0 { "0".to_owned() } else { format!("{error:.1e}") });
        let text = format!("{rows} of {all} against a sequential computation: largest error {error}, relative to {of}");
        row("checked", text);
    }
    for Written { name, path, shape, rounds } in &ran.written {
        let shape = extents(shape);
        let after = rounds.map_or_else(String::new, |rounds| format!(" after {}", counted(rounds, "round")));
        row("wrote", format!("{path}: {name}{after}, {shape}, {}", ran.dtype));
    }
    table(&rows, &[0, 1])
}
