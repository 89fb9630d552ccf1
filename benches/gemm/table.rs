//! The table: medians, ratios, and targets.

use polyshard_testing::bench::products::Sizes;
use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::bench::tabulate::{first_seen, median_of, read, verdict};

/// Prints the table of the records on standard input.
pub(crate) fn print() {
    let records = read();
    let (lowered, ran): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.case.backend == "lower");
    let (alone, ran): (Vec<_>, Vec<_>) = ran.into_iter().partition(|record| record.case.backend == "leaf");
    let (timed, sized): (Vec<_>, Vec<_>) = ran.into_iter().partition(|record| record.quantity == "seconds");
    leaves(&alone);
    products(&timed);
    memory(&sized);
    lowering(&lowered);
}

/// The minimum rate of leaves on one core without AVX-512, relative to that of OpenBLAS.
const LEAST_RATE: f64 = 0.97;

fn leaves(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!("products on one core: least seconds of it, and rates over that of OpenBLAS with the same vectors");
    println!(
        "{:<8} {:<4} {:>6} {:<20} {:>10} {:>8} {:>9}  target",
        "vectors", "type", "n", "what", "seconds", "GFLOP/s", "/OpenBLAS"
    );
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        let here: Vec<_> = records.iter().filter(|record| record.case == case).collect();
        let least = |is_one: &dyn Fn(&str) -> bool| {
            let values = here.iter().filter(|record| is_one(&record.contestant)).map(|record| record.value);
            values.reduce(f64::min)
        };
        let openblas = least(&|name| name.starts_with("openblas"));
        for name in first_seen(here.iter().map(|record| record.contestant.as_str())) {
            let Case { grid, dtype, size, .. } = &case;
            let seconds = least(&|other| other == name).expect("the name is of this case");
            let rate = openblas.filter(|_| name == "polyshard").map(|openblas| openblas / seconds);
            let target = rate.filter(|_| grid == "AVX2").map(|rate| verdict(rate >= LEAST_RATE));
            let line = format!(
                "{grid:<8} {dtype:<4} {size:>6} {name:<20} {seconds:>10.5} {:>8.1} {:>9}  {}",
                flops(size) / seconds / 1e9,
                rate.map_or_else(String::new, |rate| format!("{rate:.3}")),
                target.map_or_else(String::new, |met| format!("/OpenBLAS >= {LEAST_RATE}: {met}"))
            );
            println!("{}", line.trim_end());
        }
    }
    println!();
}

fn products(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!(
        "products: median seconds from the first rank's start to the last rank's end, prepared, and their ratio to the bound;"
    );
    println!("that of first runs, with `prepare`, new tiles and a new output; and that of prepared runs by messages");
    println!(
        "{:<8} {:<5} {:<4} {:<14} {:<16} {:>10} {:>8} {:>8} {:>8} {:>9} {:>11}  target",
        "on", "ranks", "type", "m x k x n", "what", "seconds", "GFLOP/s", "/bound", "first/", "messages/", "ScaLAPACK/"
    );
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        let of = |contestant: &str| median_of(records, &case, contestant);
        let here = records.iter().filter(|record| record.case == case);
        let names = first_seen(here.map(|record| record.contestant.as_str()));
        let scalapack = names.iter().find(|name| name.starts_with("scalapack")).and_then(|name| of(name));
        for name in names.into_iter().filter(|name| !name.contains(':')) {
            let seconds = of(name).expect("the name is of this case");
            let bound = of(&format!("bound({name})")).map(|bound| seconds / bound);
            let other =
                |way: &str| of(&format!("{name}:{way}")).zip(of(&format!("bound({name})"))).map(|(s, bound)| s / bound);
            let (first, messages) = (other("first"), other("messages"));
            let gain = bound.and(scalapack).map(|scalapack| scalapack / seconds);
            let Case { backend, grid, dtype, size } = &case;
            let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
            let line = format!(
                "{backend:<8} {grid:<5} {dtype:<4} {size:<14} {name:<16} {seconds:>10.5} {:>8.1} {:>8} {:>8} {:>9} {:>11}  {}",
                flops(size) / seconds / 1e9,
                ratio(bound),
                ratio(first),
                ratio(messages),
                ratio(gain),
                targets(&case, name, [bound, first, messages], gain)
            );
            println!("{}", line.trim_end());
        }
    }
    println!();
}

/// Whether a contestant with a bound meets its targets, as text.
fn targets(case: &Case, name: &str, ratios: [Option<f64>; 3], gain: Option<f64>) -> String {
    let Case { backend, grid, dtype, size } = case;
    let on_a_node = matches!(grid.as_str(), "1x2" | "2x1" | "2x2" | "4") && dtype == "f64";
    // Maximum ratios when prepared, for the first run, and by messages.
    let most: [Option<f64>; 3] = match size.as_str() {
        "4096" if on_a_node && name.starts_with("gemm_rs") => [Some(1.06), None, None],
        "4096" if on_a_node => [Some(1.03), Some(1.10), Some(1.10)],
        "2048" if on_a_node => [Some(1.06), Some(1.15), None],
        "512x2048x1024" => [Some(1.4), None, Some(2.0)],
        _ => [None; 3],
    };
    let ways = ["/bound", "first/", "messages/"].into_iter().zip(most).zip(ratios);
    let ways = ways.filter_map(|((way, most), ratio)| {
        let (most, ratio) = most.zip(ratio)?;
        Some(format!("{way} <= {most}: {}", verdict(ratio <= most)))
    });
    let least = (backend == "mpi" && dtype == "f64" && size == "4096").then_some(1.25);
    let gain = least.zip(gain).map(|(least, gain)| format!("ScaLAPACK/ >= {least}: {}", verdict(gain >= least)));
    ways.chain(gain).collect::<Vec<_>>().join(", ")
}

fn memory(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    const MIB: f64 = 1024.0 * 1024.0;
    println!(
        "memory of the rank that has most, in MiB: the peak by messages, else the share; shards and tiles as the program"
    );
    println!(
        "states them, in place no tiles; `before` is what MPI and the program have before there are arrays, and is part of"
    );
    println!("what is besides");
    println!(
        "{:<8} {:<5} {:<4} {:<14} {:<16} {:>8} {:>8} {:>8} {:>8} {:>8}  target",
        "on", "ranks", "type", "m x k x n", "what", "has", "shards", "tiles", "besides", "before"
    );
    for rank in records.iter().filter(|record| record.quantity == "has") {
        let of = |quantity: &str| {
            let same = |record: &&Record| record.case == rank.case && record.contestant == rank.contestant;
            let record = records.iter().filter(same).find(|record| record.quantity == quantity);
            record.unwrap_or_else(|| panic!("no `{quantity}` beside `{rank}`")).value / MIB
        };
        let besides = of("has") - of("shards") - of("tiles");
        let Case { backend, grid, dtype, size } = &rank.case;
        println!(
            "{backend:<8} {grid:<5} {dtype:<4} {size:<14} {:<16} {:>8.1} {:>8.1} {:>8.1} {besides:>8.1} {:>8.1}  \
             besides <= 32: {}",
            rank.contestant,
            of("has"),
            of("shards"),
            of("tiles"),
            of("before"),
            verdict(besides <= 32.0)
        );
    }
    println!();
}

fn lowering(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!("lower(): median milliseconds");
    println!("{:<10} {:<16} {:>8} {:>8}  target", "mesh", "what", "ms", "/8x8");
    for record in records {
        let same = |other: &&Record| other.case.grid == "8x8" && other.contestant == record.contestant;
        let reference = records.iter().find(same).map(|other| record.value / other.value);
        let target = match (record.case.grid.as_str(), reference) {
            ("8x8", _) => format!("ms <= 50: {}", verdict(record.value <= 0.05)),
            ("64x64" | "1024x1024", Some(ratio)) => format!("/8x8 <= 2: {}", verdict(ratio <= 2.0)),
            _ => String::new(),
        };
        let (grid, what, ms) = (&record.case.grid, &record.contestant, record.value * 1e3);
        let ratio = reference.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        println!("{}", format!("{grid:<10} {what:<16} {ms:>8.1} {ratio:>8}  {target}").trim_end());
    }
}

/// Multiplications and additions of a product of this size.
fn flops(size: &str) -> f64 {
    let Sizes { m, k, n } = size.replace('x', ",").parse().unwrap_or_else(|error| panic!("{error}"));
    2.0 * m as f64 * k as f64 * n as f64
}
