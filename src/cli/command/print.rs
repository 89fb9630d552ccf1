//! Answers as text: tables for people, JSON for programs.

use serde::Serialize;

/// Returns a value as JSON on one line, without its end.
///
/// # Panics
/// Never: answers are plain data.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is printed is plain data")
}

/// Returns how many of `all` are listed, by `--top` if it is given.
///
/// # Errors
/// If that is none.
pub(crate) fn listed(top: Option<usize>, unless_told: usize, all: usize) -> Result<usize, String> {
    match top {
        Some(0) => Err("`--top 0` lists nothing; give 1 or more".into()),
        top => Ok(top.unwrap_or(unless_told).min(all)),
    }
}

/// Returns rows of cells as lines, columns two spaces apart; those in `words` begin at the left, all others, which are
/// numbers, end at the right.
pub(crate) fn table(rows: &[Vec<String>], words: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let cell = |(column, cell): (usize, &String)| {
        let width = widths[column];
        if words.contains(&column) { format!("{cell:width$}") } else { format!("{cell:>width$}") }
    };
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
