//! The table: medians, ratios, and targets.

use crate::inputs;
use polyshard_testing::bench::record::Record;
use polyshard_testing::bench::tabulate::{first_seen, median_of, read, verdict};

/// Prints the table of the records on standard input.
pub(crate) fn print() {
    let (inputs, records): (Vec<_>, Vec<_>) =
        read().into_iter().partition(|record| record.quantity == inputs::QUANTITY);
    let kernel = |record: &Record| record.contestant.split(':').next().unwrap_or_default().to_owned();
    println!(
        "loop nests: median milliseconds from the first rank's start to the last rank's end, and ratios; by hand: over arrays"
    );
    println!(
        "with a point more on either side, inner: the same over the shards themselves, but for the points at their edges;"
    );
    println!(
        "compiled and prepared: emitted and executed by what was made once, first: the same with all that is made for it"
    );
    println!(
        "{:<8} {:<6} {:<6} {:<12} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  target",
        "on",
        "ranks",
        "type",
        "what",
        "by hand",
        "inner",
        "compiled",
        "first",
        "prepared",
        "first",
        "compiled",
        "prepared"
    );
    println!(
        "{:<8} {:<6} {:<6} {:<12} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "", "", "", "ms", "ms", "ms", "ms", "ms", "ms", "/hand", "/compiled"
    );
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        for name in first_seen(records.iter().filter(|record| record.case == case).map(kernel)) {
            let of = |form: &str| median_of(&records, &case, &format!("{name}:{form}")).unwrap_or(f64::NAN);
            let [hand, inner, first, prepared] = ["hand", "inner", "first", "prepared"].map(of);
            let [compiled_first, compiled] = ["compiled-first", "compiled"].map(of);
            let inner = if inner.is_nan() { String::new() } else { format!("{:.2}", inner * 1e3) };
            let near = verdict(prepared <= 1.2 * compiled);
            let emitted = verdict(compiled <= 1.03 * prepared);
            let fast = verdict(prepared.max(compiled) <= 1.3 * hand);
            println!(
                "{:<8} {:<6} {:<6} {name:<12} {:>8.2} {inner:>8} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}  \
                 prepared/compiled <= 1.2: {near}, compiled/prepared <= 1.03: {emitted}, both/hand <= 1.3: {fast}",
                case.backend,
                case.grid,
                case.dtype,
                hand * 1e3,
                compiled * 1e3,
                compiled_first * 1e3,
                prepared * 1e3,
                first * 1e3,
                compiled / hand,
                prepared / compiled
            );
        }
    }
    println!();
    inputs::print(&inputs);
}
