//! The table: medians, ratios, and targets.

use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::bench::tabulate::{first_seen, median_of, read, verdict};

/// Prints the table of the records on standard input.
pub(crate) fn print() {
    let (planned, run): (Vec<_>, Vec<_>) = read().into_iter().partition(|record| record.case.backend == "plan");
    let (timed, sized): (Vec<_>, Vec<_>) = run.into_iter().partition(|record| record.quantity == "seconds");
    moves(&timed);
    memory(&sized);
    plans(&planned);
}

fn plans(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!(
        "planning: seconds to find the plans of random problems, each axis replicated or on one dimension of up to 6"
    );
    for Record { quantity, case, contestant, value } in records {
        let most = if quantity == "all" { 2.0 } else { 0.05 };
        println!(
            "{quantity:<8} of {} on {:<10} {contestant:<6} {value:>9.5}  <= {most}: {}",
            case.size,
            case.grid,
            verdict(*value <= most)
        );
    }
    println!();
}

fn moves(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!(
        "moves: median seconds from the first rank's start to the last rank's end; /memcpy is their ratio to that"
    );
    println!("of all ranks copying a tile each, at the same time; the grids are ranks over each dimension");
    println!(
        "{:<8} {:<12} {:<14} {:<10} {:>9} {:>8} {:>10} {:>9}  target",
        "on", "from-to", "f64", "what", "seconds", "/memcpy", "/alltoallw", "pdgemr2d/"
    );
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        let of = |contestant: &str| median_of(records, &case, contestant);
        let here = records.iter().filter(|record| record.case == case);
        for name in first_seen(here.map(|record| record.contestant.as_str())) {
            let seconds = of(name).expect("the name is of this case");
            let ours = name == "messages" || name == "shared";
            let copies = of("memcpy").map(|copy| seconds / copy);
            let plain = of("alltoallw").map(|other| seconds / other).filter(|_| ours);
            let gain = of("pdgemr2d").map(|other| other / seconds).filter(|_| ours);
            let Case { backend, grid, size, .. } = &case;
            let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            let line = format!(
                "{backend:<8} {grid:<12} {size:<14} {name:<10} {seconds:>9.5} {:>8} {:>10} {:>9}  {}",
                ratio(copies),
                ratio(plain),
                ratio(gain),
                if ours { targets(&case, name, [copies, plain], gain) } else { String::new() }
            );
            println!("{}", line.trim_end());
        }
    }
    println!();
}

/// Whether one of our ways meets its targets, as text.
fn targets(case: &Case, name: &str, [copies, plain]: [Option<f64>; 2], gain: Option<f64>) -> String {
    let most = match (case.size.as_str(), name) {
        ("4096" | "8192", "messages") => 1.8,
        ("4096" | "8192", "shared") => 1.25,
        ("256x256x256x2", _) => 2.2,
        _ => return String::new(),
    };
    let copies = copies.map(|copies| format!("/memcpy <= {most}: {}", verdict(copies <= most)));
    let gain = gain.map(|gain| format!("pdgemr2d/ >= 3.5: {}", verdict(gain >= 3.5)));
    let plain = plain.filter(|_| name == "messages");
    let plain = plain.map(|plain| format!("/alltoallw <= 1.05: {}", verdict(plain <= 1.05)));
    copies.into_iter().chain(plain).chain(gain).collect::<Vec<_>>().join(", ")
}

fn memory(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    const MIB: f64 = 1024.0 * 1024.0;
    println!(
        "memory of the rank that has most, in MiB: the peak of `messages`, the share of `shared`; input and output"
    );
    println!("tile, and staging as the plan states it; `before` is what MPI and the program have before there are");
    println!("arrays, and is part of what is besides");
    println!(
        "{:<8} {:<12} {:<14} {:<10} {:>8} {:>8} {:>8} {:>8} {:>8}  target",
        "on", "from-to", "f64", "what", "has", "tiles", "staging", "besides", "before"
    );
    for peak in records.iter().filter(|record| record.quantity == "peak") {
        let of = |quantity: &str| {
            let same = |record: &&Record| record.case == peak.case && record.contestant == peak.contestant;
            let record = records.iter().filter(same).find(|record| record.quantity == quantity);
            record.unwrap_or_else(|| panic!("no `{quantity}` beside `{peak}`")).value / MIB
        };
        let besides = of("peak") - of("tiles") - of("staging");
        let Case { backend, grid, size, .. } = &peak.case;
        println!(
            "{backend:<8} {grid:<12} {size:<14} {:<10} {:>8.1} {:>8.1} {:>8.1} {besides:>8.1} {:>8.1}  \
             besides <= 32: {}",
            peak.contestant,
            of("peak"),
            of("tiles"),
            of("staging"),
            of("before"),
            verdict(besides <= 32.0)
        );
    }
    println!();
}
