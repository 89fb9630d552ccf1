//! The table: medians, ratios, and targets.

use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::bench::tabulate::{first_seen, median_of, read, verdict};

/// Prints the table of the records on standard input.
pub(crate) fn print() {
    let records = read();
    let of =
        |backend: &str| records.iter().filter(|record| record.case.backend == backend).cloned().collect::<Vec<_>>();
    nests(&of("nest"));
    functions(&of("function"));
    products(&of("product"));
    words(&of("words"));
    let (lowered, counted): (Vec<_>, Vec<_>) = of("lower").into_iter().partition(|record| record.quantity == "seconds");
    lowering(&lowered);
    partners(&counted);
    distributed(
        &records
            .into_iter()
            .filter(|record| ["mpi", "threads"].contains(&record.case.backend.as_str()))
            .collect::<Vec<_>>(),
    );
}

/// The number of arrays of the matrices' size that a kernel reads or writes once, and the target ratio.
fn nest(name: &str) -> Option<(f64, Option<f64>)> {
    Some(match name {
        "pointwise" => (3.0, None),
        "row-sums" => (1.0, Some(0.6)),
        "row-maxima" => (1.0, Some(0.8)),
        "inner-products" => (2.0, None),
        "matrix-vector" => (1.0, Some(0.9)),
        "vector-matrix" => (1.0, None),
        "stencil-rows" | "stencil-columns" => (2.0, Some(0.7)),
        "transpose" => (2.0, Some(0.5)),
        _ => return None,
    })
}

fn nests(records: &[Record]) {
    let Some(case) = records.first().map(|record| record.case.clone()) else { return };
    let n: f64 = case.size.parse().expect("the matrices' extent");
    let rate =
        |name: &str, arrays: f64| median_of(records, &case, name).map(|seconds| arrays * n * n * 8.0 / seconds / 1e9);
    let pointwise = rate("pointwise", 3.0).unwrap_or(f64::NAN);
    println!("nests on one core, {} {}: GB/s of operands read and written once", case.size, case.dtype);
    println!("{:<16} {:>8} {:>12} {:>8}  target", "what", "GB/s", "/pointwise", "numpy");
    for name in first_seen(records.iter().map(|record| record.contestant.as_str())) {
        let Some((arrays, target)) = nest(name) else { continue };
        let Some(found) = rate(name, arrays) else { continue };
        let ratio = found / pointwise;
        let numpy = rate(&format!("numpy({name})"), arrays).map_or_else(String::new, |rate| format!("{rate:.1}"));
        let target = target.map(|target| format!("/pointwise >= {target}: {}", verdict(ratio >= target)));
        let line = format!("{name:<16} {found:>8.1} {ratio:>12.2} {numpy:>8}  {}", target.unwrap_or_default());
        println!("{}", line.trim_end());
    }
    println!();
}

fn functions(records: &[Record]) {
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        println!("functions and sums on one core, {} {}: milliseconds, and the rate in numpy's", case.size, case.dtype);
        println!("{:<16} {:>8} {:>8} {:>8}  target", "what", "ms", "numpy", "/numpy");
        let here = records.iter().filter(|record| record.case == case && !record.contestant.starts_with("numpy("));
        for name in first_seen(here.map(|record| record.contestant.as_str())) {
            let of = |contestant: &str| median_of(records, &case, contestant);
            let seconds = of(name).expect("the name is of this case");
            let peer = of(&format!("numpy({name})")).map_or_else(String::new, |peer| {
                let rate = peer / seconds;
                format!("{:>8.1} {rate:>8.2}  >= 0.7: {}", peer * 1e3, verdict(rate >= 0.7))
            });
            println!("{:<16} {:>8.1} {peer}", name, seconds * 1e3);
        }
        println!();
    }
}

fn products(records: &[Record]) {
    let Some(case) = records.first().map(|record| record.case.clone()) else { return };
    let (n, r) = case.size.split_once('x').expect("an extent and columns");
    let [n, r] = [n, r].map(|extent| extent.parse::<f64>().expect("an extent"));
    // The operations of the matrix product; smaller products of the others are not counted.
    let flops = 2.0 * n * n * n * r;
    let rate = |name: &str| median_of(records, &case, name).map(|seconds| flops / seconds / 1e9);
    let gemm = rate("gemm").unwrap_or(f64::NAN);
    println!("products of several tensors on one core, {} {}: GFLOP/s of the largest product", case.size, case.dtype);
    println!("{:<16} {:>8} {:>12} {:>8}  target", "what", "GFLOP/s", "/gemm", "numpy");
    for name in first_seen(records.iter().map(|record| record.contestant.as_str())) {
        let Some(found) = rate(name).filter(|_| !name.starts_with("numpy")) else { continue };
        let numpy = rate(&format!("numpy({name})")).map_or_else(String::new, |rate| format!("{rate:.1}"));
        let ratio = found / gemm;
        let target = (name == "mttkrp").then(|| format!("/gemm >= 0.6: {}", verdict(ratio >= 0.6)));
        let line = format!("{name:<16} {found:>8.1} {ratio:>12.2} {numpy:>8}  {}", target.unwrap_or_default());
        println!("{}", line.trim_end());
    }
    println!();
}

fn words(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!("words that the busiest rank receives, counted while running");
    println!(
        "{:<8} {:<16} {:<10} {:>10} {:>10} {:>12} {:>8} {:>8}  target",
        "kernel", "extents", "mesh", "counted", "formula", "bound", "/formula", "/bound"
    );
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        let of = |what: &str| median_of(records, &case, what).unwrap_or(f64::NAN);
        let [counted, formula, bound] = ["counted", "formula", "bound"].map(of);
        println!(
            "{:<8} {:<16} {:<10} {counted:>10} {formula:>10} {bound:>12.1} {:>8.4} {:>8.3}  /formula = 1: {}",
            case.dtype,
            case.size,
            case.grid,
            counted / formula,
            counted / bound,
            verdict(counted == formula)
        );
    }
    println!();
}

fn lowering(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!("lower() on 64 ranks: median milliseconds");
    println!("{:<14} {:<10} {:<8} {:>8}  target", "what", "mesh", "sizes", "ms");
    for Record { case, contestant, value, .. } in records {
        let met = verdict(*value <= 0.05);
        println!("{contestant:<14} {:<10} {:<8} {:>8.1}  ms <= 50: {met}", case.grid, case.size, value * 1e3);
    }
    println!();
}

fn partners(records: &[Record]) {
    let Some(least) = records.iter().map(|record| record.value).reduce(f64::min) else { return };
    println!("ranks that a rank of a periodic 5-point stencil looks at in a step");
    println!("{:<10} {:>6}  target", "mesh", "ranks");
    for Record { case, value, .. } in records {
        println!("{:<10} {value:>6}  the same on all: {}", case.grid, verdict(*value == least));
    }
    println!();
}

/// Products on several ranks compared with their leaves alone.
fn distributed(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!(
        "products whose sums meet across ranks: median seconds from the first rank's start to the last rank's end"
    );
    println!(
        "{:<8} {:<6} {:<6} {:<14} {:>10} {:>8} {:>8}  target",
        "on", "ranks", "n", "what", "seconds", "GFLOP/s", "/bound"
    );
    let ratio = |case: &Case, name: &str| {
        Some(median_of(records, case, name)? / median_of(records, case, &format!("bound({name})"))?)
    };
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        let here = records.iter().filter(|record| record.case == case);
        for name in first_seen(here.map(|record| record.contestant.as_str())) {
            let (Some(seconds), Some(found)) = (median_of(records, &case, name), ratio(&case, name)) else { continue };
            let mut targets = Vec::new();
            let at_full_size = case.size == "4096";
            if at_full_size && (name == "johnson" || name.starts_with("gemm_rs")) {
                targets.push(format!("/bound <= 1.10: {}", verdict(found <= 1.10)));
            }
            if let Some(other) = ratio(&case, "ag_gemm").filter(|_| at_full_size && name == "gemm_rs") {
                targets.push(format!("<= 1.05 of ag_gemm's: {}", verdict(found <= 1.05 * other)));
            }
            let n: f64 = case.size.parse().unwrap_or(f64::NAN);
            let line = format!(
                "{:<8} {:<6} {:<6} {name:<14} {seconds:>10.5} {:>8.1} {found:>8.3}  {}",
                case.backend,
                case.grid,
                case.size,
                2.0 * n.powi(3) / seconds / 1e9,
                targets.join(", ")
            );
            println!("{}", line.trim_end());
        }
    }
    ragged(records);
    println!();
}

/// The same algorithm on extents of 4096 and 4098.
fn ragged(records: &[Record]) {
    let summa: Vec<_> = records.iter().filter(|record| record.contestant == "summa").cloned().collect();
    for case in first_seen(summa.iter().filter(|record| record.case.size == "4096").map(|record| record.case.clone())) {
        let other = Case { size: "4098".into(), ..case.clone() };
        let per_flop = |case: &Case, n: f64| Some(median_of(&summa, case, "summa")? / n.powi(3));
        if let (Some(even), Some(ragged)) = (per_flop(&case, 4096.0), per_flop(&other, 4098.0)) {
            let ratio = (ragged / even).max(even / ragged);
            let met = verdict(ratio <= 1.05);
            println!(
                "{}: SUMMA on {}, 4098 against 4096 per flop: {ratio:.3}, target <= 1.05: {met}",
                case.backend, case.grid
            );
        }
    }
}
