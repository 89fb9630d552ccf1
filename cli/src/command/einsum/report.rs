//! The report on a choice and on a run.

use crate::command::compute::{Description, Found, Ran, described, sure};
use crate::command::print::{self, without_nulls};
use polyshard::layout::joined;
use polyshard::machine::units::{counted, scaled, seconds, table};
use polyshard::planner::cost::{CostedPart, PartCost};
use polyshard::program::Kernel;
use polyshard::schedule::Schedule;
use polyshard::search::{Choice, Contraction};
use serde_json::json;

/// The kernel, the chosen schedule and its cost.
pub(crate) fn head(chosen: &Contraction, ranks: usize, found: &Found) -> String {
    let choice = &chosen.choice;
    let (program, priced) = (choice.program(), Some((found, choice.cost())));
    match &chosen.order {
        Some(order) => {
            let considered = counted(choice.considered(), "mesh");
            let order = Some(format!("{order} ({considered} considered, {})", sure(choice.gap())));
            described(&Description { program, ranks, grid: None, order, gap: None, chosen: priced, bound: None })
        }
        None => {
            let (grid, bound) = (Some(grid(choice)), Some(choice.bound().elements()));
            described(&Description { program, ranks, grid, order: None, gap: None, chosen: priced, bound })
        }
    }
}

/// The divided loops, the ranks that they use, and the optimality gap.
fn grid(choice: &Choice) -> String {
    let divided = choice.best().grid().iter().filter(|(_, ranks)| *ranks > 1);
    let divided = joined(divided.map(|(name, ranks)| format!("{name} {ranks}")), ", ");
    let divided = if divided.is_empty() { "nothing divided".to_owned() } else { divided };
    let used = match (choice.best().ranks(), choice.ranks()) {
        (used, all) if used == all => format!("all {}", counted(all, "rank")),
        (used, all) => format!("{used} of {all} ranks"),
    };
    format!("{divided} ({used}; {} considered, {})", counted(choice.considered(), "grid"), sure(choice.gap()))
}

/// The table of `--top`: the best schedules, fastest first.
pub(super) fn top(chosen: &Contraction, top: Option<usize>) -> String {
    let (Some(top), Contraction { order: None, choice }) = (top, chosen) else { return String::new() };
    let grid = format!("grid ({})", joined(choice.best().grid().iter().map(|(name, _)| name), " "));
    let head = [&grid, "ranks", "steps", "words", "/ bound", "seconds", "memory"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for candidate in [choice.best()].into_iter().chain(choice.others()).take(top) {
        let steps = candidate.steps();
        let bound = choice.bound_of(candidate).words;
        let ratio = if bound > 0.0 { format!("{:.3}", candidate.words() as f64 / bound) } else { String::new() };
        rows.push(vec![
            joined(candidate.grid().iter().map(|(_, ranks)| ranks), " "),
            candidate.ranks().to_string(),
            steps.to_string(),
            candidate.words().to_string(),
            ratio,
            seconds(candidate.cost().seconds()),
            scaled(candidate.cost().memory as f64, "B"),
        ]);
    }
    format!("\n{}", table(&rows, &[0]))
}

/// A choice and the outcome of its run, as JSON.
pub(super) fn json(kernel: &Kernel, chosen: &Contraction, ranks: usize, found: &Found, ran: Option<&Ran>) -> String {
    let Contraction { order, choice } = chosen;
    let (program, cost) = (choice.program(), choice.cost());
    let part = |part: &PartCost| {
        let computes = matches!(part.part, CostedPart::Compute(_));
        let (name, times, seconds, received) = (&part.name, part.times, part.seconds, part.received);
        json!({ "name": name, "computes": computes, "times": times, "seconds": seconds, "received_bytes": received })
    };
    // The division of the loops, of one kernel; the order of contraction, of several.
    let of_one = order.is_none();
    let grid = || choice.best().grid().iter().map(|(name, ranks)| json!([name, ranks])).collect::<Vec<_>>();
    let chain = |schedule: &Schedule| schedule.steps().map(ToString::to_string).collect::<Vec<_>>();
    let run = ran.and_then(|ran| Some((ran, ran.written.first()?))).map(|(ran, written)| {
        // Inputs whose elements were converted, and the type in the file.
        let converted = ran.converted.iter().map(|(path, dtype)| json!([path, dtype.to_string()])).collect::<Vec<_>>();
        let mut run = json!({
            "seconds": ran.seconds,
            "received_bytes": ran.received,
            "inputs": ran.read,
            "out": written.path,
            "array": written.name,
            "converted": (!converted.is_empty()).then_some(converted),
        });
        if let Some(checked) = &ran.checked {
            run["checked_rows"] = json!(checked.rows[0]);
            run["largest_error"] = json!(checked.error);
        }
        without_nulls(run, &["converted"])
    });
    let answer = json!({
        "kernel": kernel.statement(),
        "machine": found.machine.to_string(),
        "measured": found.measured,
        "ranks": ranks,
        "used": program.mesh().size(),
        "grid": of_one.then(grid),
        "order": order.as_ref().map(ToString::to_string),
        "chains": choice.schedules().iter().map(chain).collect::<Vec<_>>(),
        "considered": choice.considered(),
        "gap": choice.gap(),
        "words": cost.received / program.dtype().size() as u64,
        "bound": of_one.then(|| choice.bound().words),
        "memory_bytes": cost.memory,
        "seconds": cost.seconds(),
        "computing_seconds": cost.computing(),
        "moving_seconds": cost.moving(),
        "parts": cost.parts.iter().map(part).collect::<Vec<_>>(),
        "run": run,
    });
    print::json(&without_nulls(answer, &["measured", "grid", "order", "bound", "run"])) + "\n"
}
