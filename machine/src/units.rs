//! Amounts as people read them: a few digits, and a unit that suits them.
//!
//! For text only: reports as data keep all digits, in bytes and seconds.

use std::fmt;

/// Returns a number of things in words.
///
/// ```
/// use polyshard_machine::units::counted;
/// assert_eq!([counted(1, "rank"), counted(4, "rank")], ["1 rank", "4 ranks"]);
/// assert_eq!([counted(2, "axis"), counted(0, "matrix")], ["2 axes", "0 matrices"]);
/// ```
#[must_use]
pub fn counted(count: impl fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    if count == "1" {
        return format!("1 {noun}");
    }
    for (one, many) in [("axis", "axes"), ("matrix", "matrices"), ("index", "indices")] {
        if let Some(before) = noun.strip_suffix(one) {
            return format!("{count} {before}{many}");
        }
    }
    format!("{count} {noun}s")
}

/// Returns bytes as `1.05 MB`, a MB being a million.
///
/// ```
/// use polyshard_machine::units::bytes;
/// assert_eq!([0, 999, 1_048_576].map(bytes), ["0 B", "999 B", "1.05 MB"]);
/// ```
#[must_use]
pub fn bytes(bytes: u128) -> String {
    scaled(bytes as f64, "B")
}

/// Returns seconds as `104.9 us`, in three or four digits and from nanoseconds up.
///
/// ```
/// use polyshard_machine::units::seconds;
/// assert_eq!([0.0, 1.5e-9, 2e-5, 1.049e-4, 90.0].map(seconds), ["0", "1.50 ns", "20 us", "104.9 us", "90 s"]);
/// assert_eq!(seconds(1e9), "1.00e9 s");
/// ```
#[must_use]
pub fn seconds(seconds: f64) -> String {
    let unit = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")].into_iter().find(|(unit, _)| seconds >= *unit);
    match unit {
        _ if seconds == 0.0 => "0".to_owned(),
        // Weeks are no result, but something that is far off.
        _ if seconds >= 1e6 => format!("{seconds:.2e} s"),
        Some((unit, name)) => format!("{} {name}", digits(seconds / unit)),
        None => format!("{} ns", digits(seconds / 1e-9)),
    }
}

/// Returns a value with a unit and a prefix of it, as `8.59 GFLOP`.
///
/// ```
/// use polyshard_machine::units::scaled;
/// assert_eq!([8.59e9, 2e18, 1e21].map(|value| scaled(value, "FLOP")), ["8.59 GFLOP", "2 EFLOP", "1.00e21 FLOP"]);
/// ```
#[must_use]
pub fn scaled(mut value: f64, unit: &str) -> String {
    for prefix in ["", "k", "M", "G", "T", "P"] {
        if value < 1e3 {
            return format!("{} {prefix}{unit}", digits(value));
        }
        value /= 1e3;
    }
    if value < 1e3 { format!("{} E{unit}", digits(value)) } else { format!("{:.2e} {unit}", value * 1e18) }
}

fn digits(value: f64) -> String {
    // Quotients of decimal numbers miss whole ones by their last bits.
    let whole = (value - value.round()).abs() <= 1e-12 * value;
    let places = if whole || value >= 1000.0 {
        0
    } else if value >= 100.0 {
        1
    } else {
        2
    };
    format!("{value:.places$}")
}
