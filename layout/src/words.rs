//! Numbers and lists in sentences.

use std::fmt::Display;

/// Returns a number with its noun, singular or plural.
///
/// ```
/// use polyshard::machine::units::counted;
/// assert_eq!([counted(1, "rank"), counted(4, "rank")], ["1 rank", "4 ranks"]);
/// assert_eq!([counted(2, "axis"), counted(0, "matrix"), counted(3, "process")], ["2 axes", "0 matrices", "3 processes"]);
/// ```
#[must_use]
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    if count == "1" {
        return format!("1 {noun}");
    }
    for (one, many) in [("axis", "axes"), ("matrix", "matrices"), ("index", "indices")] {
        if let Some(before) = noun.strip_suffix(one) {
            return format!("{count} {before}{many}");
        }
    }
    let plural = match noun {
        // Names such as `level0` and `x` have no plural.
        _ if noun.len() == 1 || noun.ends_with(|last: char| last.is_ascii_digit()) => "",
        _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}

/// Returns items as text, with a separator between them.
///
/// ```
/// use polyshard::layout::joined;
/// assert_eq!((joined([4, 6], " x "), joined(["A"], ", ")), ("4 x 6".into(), "A".into()));
/// ```
#[must_use]
pub fn joined<T: Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(separator)
}

/// Returns a sum as text: its terms, each with its factor, which is at most 2^63 and not 0, and a constant.
///
/// ```
/// use polyshard::layout::signed_sum;
/// assert_eq!(signed_sum([(1, "x"), (-2, "y")], 3, "*"), "x - 2*y + 3");
/// assert_eq!((signed_sum([(-1, "x")], -1, "*"), signed_sum([(0, "x"); 0], -1, "*")), ("-x - 1".into(), "-1".into()));
/// ```
#[must_use]
pub fn signed_sum<T: Display>(terms: impl IntoIterator<Item = (i64, T)>, constant: i64, times: &str) -> String {
    let mut text = String::new();
    for (factor, term) in terms {
        let sign = match (text.is_empty(), factor < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        let factor = factor.unsigned_abs();
        text += &if factor == 1 { format!("{sign}{term}") } else { format!("{sign}{factor}{times}{term}") };
    }
    match (text.is_empty(), constant) {
        (true, constant) => constant.to_string(),
        (false, 0) => text,
        (false, ..0) => format!("{text} - {}", constant.unsigned_abs()),
        (false, _) => format!("{text} + {constant}"),
    }
}

/// Returns the distinct items, in the order in which they first occur.
///
/// ```
/// use polyshard::layout::each_once;
/// assert_eq!(each_once([2, 1, 2, 3, 1]), [2, 1, 3]);
/// ```
#[must_use]
pub fn each_once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// Returns the distinct items in increasing order.
#[doc(hidden)]
#[must_use]
pub fn in_order<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items.dedup();
    items
}

/// Returns the verb that goes with a number of things.
#[must_use]
pub fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
