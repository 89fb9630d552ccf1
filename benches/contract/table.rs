//! The table: medians, ratios, and the figures to reach.

use crate::common::record::Record;
use crate::common::tabulate::{first_seen, median_of, read, verdict};

/// Prints the table of the records on standard input.
pub(crate) fn print() {
    let records = read();
    let of =
        |backend: &str| records.iter().filter(|record| record.case.backend == backend).cloned().collect::<Vec<_>>();
    nests(&of("nest"));
    products(&of("product"));
}

/// Arrays of the matrices' size that a kernel reads or writes once, and the ratio to reach.
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

fn products(records: &[Record]) {
    let Some(case) = records.first().map(|record| record.case.clone()) else { return };
    let (n, r) = case.size.split_once('x').expect("an extent and columns");
    let [n, r] = [n, r].map(|extent| extent.parse::<f64>().expect("an extent"));
    // Those of the matrix product; the others' smaller products are not counted.
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
