//! From lines to the numbers of a table.

use super::record::{Case, Record, median};
use std::io;

/// Reads the records on standard input; skips other lines.
///
/// # Panics
/// If a line begins as a record but is not a valid one.
pub fn read() -> Vec<Record> {
    let lines = io::stdin().lines().map(|line| line.expect("standard input is text"));
    let records = lines.filter(|line| line.starts_with("record "));
    records.map(|line| line.parse().unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// The median of a contestant's measurements, or none without measurements.
pub fn median_of(records: &[Record], case: &Case, contestant: &str) -> Option<f64> {
    let here = records.iter().filter(|record| record.case == *case && record.contestant == contestant);
    let values: Vec<f64> = here.map(|record| record.value).collect();
    (!values.is_empty()).then(|| median(values))
}

/// Each item once, in the order of first appearance.
pub fn first_seen<I: PartialEq>(items: impl IntoIterator<Item = I>) -> Vec<I> {
    items.into_iter().fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

/// The verdict on a target figure.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}
