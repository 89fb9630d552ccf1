//! The tables: medians, ratios, and targets.

use crate::order::{pairs_in_order, spearman};
use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::bench::tabulate::{first_seen, median_of, read, verdict};

/// Prints the tables of the records on standard input.
pub(crate) fn print() {
    let (planned, run): (Vec<_>, Vec<_>) = read().into_iter().partition(|record| record.case.backend == "planner");
    synthesis(&planned);
    programs(&run);
}

fn synthesis(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!("synthesis: median seconds to find all programs of at most 5 steps");
    println!("{:>6} {:>7} {:>8} {:>9}  target", "levels", "members", "programs", "seconds");
    let (seconds, programs): (Vec<_>, Vec<_>) =
        records.iter().cloned().partition(|record| record.quantity == "seconds");
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        let of = |records: &[Record]| median_of(records, &case, "synthesize").expect("the part prints both");
        let (seconds, programs) = (of(&seconds), of(&programs));
        let most = if case.grid == "2" { 0.01 } else { 1.0 };
        let Case { grid, size, .. } = &case;
        println!("{grid:>6} {size:>7} {programs:>8} {seconds:>9.6}  <= {most}: {}", verdict(seconds <= most));
    }
    println!();
}

fn programs(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    let (simulated, measured): (Vec<_>, Vec<_>) =
        records.iter().cloned().partition(|record| record.quantity == "simulated");
    println!(
        "programs on emulated nodes, as `nodes x ranks / factor by which a node's port is slower`: median seconds from"
    );
    println!(
        "the first rank's start to the last rank's end; `chosen` is the simulator's fastest, `fastest` the one that"
    );
    println!(
        "was, `direct` one all-reduce; `order` are the pairs of programs more than 10% apart that the simulator puts"
    );
    println!("in their order, `error` is its median error over all programs");
    println!(
        "{:<8} {:<24} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6}  target",
        "nodes",
        "matrix/axes:f64",
        "programs",
        "simulated",
        "chosen",
        "fastest",
        "chosen/",
        "direct/",
        "spearman",
        "order",
        "error"
    );
    let mut choices = Vec::new();
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        let here = simulated.iter().filter(|record| record.case == case);
        let names = first_seen(here.map(|record| record.contestant.as_str()));
        let of = |records: &[Record]| -> Vec<f64> {
            names.iter().map(|name| median_of(records, &case, name).expect("each was measured and simulated")).collect()
        };
        let (expected, seconds) = (of(&simulated), of(&measured));
        let fastest = (0..names.len()).min_by(|&a, &b| seconds[a].total_cmp(&seconds[b])).expect("there are programs");
        let direct = names.iter().position(|name| name.starts_with("AllReduce") && !name.contains(';'));
        let direct = seconds[direct.expect("one all-reduce is a program")];
        let (right, pairs) = pairs_in_order(&seconds, &expected);
        let mut errors: Vec<f64> = expected.iter().zip(&seconds).map(|(e, s)| (e / s - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let ratio = seconds[0] / seconds[fastest];
        println!(
            "{:<8} {:<24} {:>8} {:>9.5} {:>8.5} {:>8.5} {ratio:>8.3} {:>8.2} {:>8.3} {:>9} {:>5.1}%  <= 1.1: {}",
            case.grid,
            case.size,
            names.len(),
            expected[0],
            seconds[0],
            seconds[fastest],
            direct / seconds[0],
            spearman(&expected, &seconds),
            format!("{right}/{pairs}"),
            100.0 * errors[errors.len() / 2],
            verdict(ratio <= 1.1)
        );
        choices.push((case.clone(), names[0].to_string(), names[fastest].to_string()));
    }
    println!();
    println!("what was chosen, and what was fastest where that is another");
    for (Case { grid, size, .. }, chosen, fastest) in choices {
        println!("{grid:<8} {size:<24} {chosen}");
        if fastest != chosen {
            println!("{:<33} {fastest}", "");
        }
    }
    println!();
}
