//! What is said of a choice and of a run.

use super::check::Checked;
use crate::command::print;
use polyshard::machine::Machine;
use polyshard::machine::units::{counted, scaled, seconds, table};
use polyshard::planner::cost::CostedPart;
use polyshard::search::Candidate;
use polyshard::{Choice, DType, Pattern, launched_ranks};
use serde::Serialize;
use std::fmt::Write as _;

/// What came of a run.
pub(super) struct Ran {
    pub(super) seconds: f64,
    /// Bytes that the first rank received.
    pub(super) received: u64,
    pub(super) out: String,
    pub(super) checked: Option<Checked>,
}

/// The kernel, the schedule that was chosen, and what it costs.
pub(super) fn head(choice: &Choice, machine: &Machine, dtype: DType) -> String {
    let (best, program) = (choice.best(), choice.program());
    let kernel = program.kernel();
    let vars: Vec<_> = kernel.vars().iter().map(|var| format!("{} {}", var.name, var.extent)).collect();
    let operations: u64 = program.nests().map(|nest| nest.work().operations).fold(0, u64::saturating_add);
    let operations = scaled(operations as f64 * best.ranks() as f64, "operations");
    let ranks = match launched_ranks() {
        Some(_) => "processes",
        None => "threads",
    };
    let mut rows =
        vec![vec!["kernel".to_owned(), format!("{}, {}, {dtype}, {operations}", kernel.statement(), vars.join(", "))]];
    let mut row = |what: &str, text: String| rows.push(vec![what.to_owned(), text]);
    row("ranks", format!("{} ({ranks}) on {machine}", choice.ranks()));
    row("grid", grid(choice));
    row("moves", moves(best));
    row("words", words(choice));
    row("memory", format!("at most {} a rank", scaled(best.cost().memory as f64, "B")));
    let [all, computing, moving] = [best.cost().seconds(), best.cost().computing(), best.cost().moving()].map(seconds);
    row("time", format!("{all} predicted: computing {computing}, moving {moving}"));
    table(&rows, &[0, 1])
}

/// The loops that are divided, how many ranks that takes, and how sure it is that no other grid is better.
fn grid(choice: &Choice) -> String {
    let divided = choice.best().grid().into_iter().filter(|(_, ranks)| *ranks > 1);
    let divided: Vec<_> = divided.map(|(name, ranks)| format!("{name} {ranks}")).collect();
    let divided = if divided.is_empty() { "none".to_owned() } else { divided.join(", ") };
    let used = match (choice.best().ranks(), choice.ranks()) {
        (used, all) if used == all => format!("all {}", counted(all, "rank")),
        (used, all) => format!("{used} of {all} ranks"),
    };
    let sure = match choice.gap() {
        0.0 => "no other can be faster".to_owned(),
        gap => format!("another may be faster by {:.0} %", 100.0 * gap),
    };
    format!("{divided} ({used}; {} considered, {sure})", counted(choice.considered(), "grid"))
}

fn moves(best: &Candidate) -> String {
    let nests = best.program().nests();
    let moved = nests.flat_map(|nest| {
        nest.transfers.iter().zip(nest.volumes()).filter_map(|(transfer, volume)| {
            let pattern = nest.pattern_of(transfer);
            let times = if volume.times > 1 { format!(" in {} steps", volume.times) } else { String::new() };
            let bytes = scaled(volume.received as f64, "B");
            (pattern != Pattern::Local)
                .then(|| format!("{} {pattern}, {bytes}{times}", nest.tensor_name(transfer.tensor)))
        })
    });
    let moved: Vec<_> = moved.collect();
    if moved.is_empty() { "nothing".to_owned() } else { moved.join("; ") }
}

fn words(choice: &Choice) -> String {
    let (words, bound) = (choice.best().words(), choice.bound().elements());
    match bound > 0 {
        true => {
            format!(
                "at most {words} a rank; no algorithm on as many ranks moves fewer than {bound}: {:.2}",
                words as f64 / bound as f64
            )
        }
        false => format!("at most {words} a rank"),
    }
}

/// The best schedules, the fastest first, if they are asked for.
pub(super) fn top(choice: &Choice, top: Option<usize>) -> String {
    let Some(top) = top else { return String::new() };
    let vars: Vec<_> = choice.best().grid().iter().map(|(name, _)| name.to_string()).collect();
    let mut rows = vec![vec![
        format!("grid ({})", vars.join(" ")),
        "ranks".into(),
        "steps".into(),
        "words".into(),
        "/ bound".into(),
        "seconds".into(),
        "memory".into(),
    ]];
    for candidate in [choice.best()].into_iter().chain(choice.others()).take(top) {
        let grid: Vec<_> = candidate.grid().iter().map(|(_, ranks)| ranks.to_string()).collect();
        let steps = candidate.program().nests().map(|nest| nest.work().times).max().unwrap_or(1);
        let kernel = candidate.program().kernel();
        let bound = kernel.lower_bound(candidate.ranks(), None).words;
        let ratio = if bound > 0.0 { format!("{:.3}", candidate.words() as f64 / bound) } else { String::new() };
        rows.push(vec![
            grid.join(" "),
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

/// What a run took, and where its result is.
pub(super) fn ran(choice: &Choice, ran: &Ran, dtype: DType) -> String {
    let predicted = choice.cost().seconds();
    // What takes microseconds is all latency, of which a prediction knows little.
    let off = match ran.seconds / predicted {
        ratio if predicted < 1e-4 || ratio >= 10.0 => String::new(),
        ratio => format!(", {:+.0} %", 100.0 * (ratio - 1.0)),
    };
    let mut text = String::new();
    let shape: Vec<_> = choice.program().kernel().output().shape.iter().map(usize::to_string).collect();
    let shape = if shape.is_empty() { "one element".to_owned() } else { shape.join(" x ") };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "ran     {} ({} predicted{off})", seconds(ran.seconds), seconds(predicted));
    if let Some(Checked { rows: [rows, all], error }) = &ran.checked {
        let _ = writeln!(text, "checked {rows} of {}: largest error {error:.1e}", counted(all, "row"));
    }
    let _ = writeln!(text, "wrote   {}, {shape}, {dtype}", ran.out);
    text
}

/// A choice for programs, and what came of a run.
#[derive(Serialize)]
struct Answer {
    kernel: String,
    machine: String,
    ranks: usize,
    used: usize,
    grid: Vec<(String, usize)>,
    chain: Vec<String>,
    considered: usize,
    gap: f64,
    words: u64,
    bound: f64,
    memory_bytes: u64,
    seconds: f64,
    computing_seconds: f64,
    moving_seconds: f64,
    parts: Vec<PartAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunAnswer>,
}

#[derive(Serialize)]
struct PartAnswer {
    name: String,
    computes: bool,
    times: u64,
    seconds: f64,
    received_bytes: u64,
}

#[derive(Serialize)]
struct RunAnswer {
    seconds: f64,
    received_bytes: u64,
    out: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked_rows: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_error: Option<f64>,
}

pub(super) fn json(choice: &Choice, machine: &Machine, ran: Option<&Ran>) -> String {
    let (best, cost) = (choice.best(), choice.cost());
    let part = |part: &polyshard::planner::cost::PartCost| PartAnswer {
        name: part.name.clone(),
        computes: matches!(part.part, CostedPart::Compute(_)),
        times: part.times,
        seconds: part.seconds,
        received_bytes: part.received,
    };
    let answer = Answer {
        kernel: choice.program().kernel().statement(),
        machine: machine.to_string(),
        ranks: choice.ranks(),
        used: best.ranks(),
        grid: best.grid().iter().map(|(name, ranks)| (name.to_string(), *ranks)).collect(),
        chain: choice.schedule().steps().map(ToString::to_string).collect(),
        considered: choice.considered(),
        gap: choice.gap(),
        words: best.words(),
        bound: choice.bound().words,
        memory_bytes: cost.memory,
        seconds: cost.seconds(),
        computing_seconds: cost.computing(),
        moving_seconds: cost.moving(),
        parts: cost.parts.iter().map(part).collect(),
        run: ran.map(|ran| RunAnswer {
            seconds: ran.seconds,
            received_bytes: ran.received,
            out: ran.out.clone(),
            checked_rows: ran.checked.as_ref().map(|checked| checked.rows[0]),
            largest_error: ran.checked.as_ref().map(|checked| checked.error),
        }),
    };
    print::json(&answer) + "\n"
}
