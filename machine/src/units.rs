//! Amounts for people: a few digits, and a suitable unit.
//!
//! For text only: reports as data keep all digits, in bytes and seconds.

pub use polyshard_layout::counted;

/// Returns bytes as `1.05 MB`, a MB being a million.
///
/// ```
/// use polyshard::machine::units::bytes;
/// assert_eq!([0, 999, 1_048_576].map(bytes), ["0 B", "999 B", "1.05 MB"]);
/// ```
#[must_use]
pub fn bytes(bytes: u128) -> String {
    scaled(bytes as f64, "B")
}

/// Returns seconds as `104.9 us`, with three or four digits, down to nanoseconds.
///
/// ```
/// use polyshard::machine::units::seconds;
/// assert_eq!([0.0, 1.5e-9, 2e-5, 1.049e-4, 90.0].map(seconds), ["0", "1.50 ns", "20 us", "104.9 us", "90 s"]);
/// assert_eq!(seconds(1e9), "1.00e9 s");
/// ```
#[must_use]
pub fn seconds(seconds: f64) -> String {
    let unit = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")].into_iter().find(|(unit, _)| seconds >= *unit);
    match unit {
        _ if seconds == 0.0 => "0".to_owned(),
        // Weeks are an order of magnitude, not a result.
        _ if seconds >= 1e6 => format!("{seconds:.2e} s"),
        Some((unit, name)) => format!("{} {name}", digits(seconds / unit)),
        None => format!("{} ns", digits(seconds / 1e-9)),
    }
}

/// Returns a value with a unit and an SI prefix, as `8.59 GFLOP`.
///
/// ```
/// use polyshard::machine::units::scaled;
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

/// Returns bytes in units of 1024, with at most three decimals.
///
/// ```
/// use polyshard::machine::units::binary;
/// assert_eq!([1.0, 1023.0, 1024.0, 1536.0].map(binary), ["1 B", "1023 B", "1 KiB", "1.5 KiB"]);
/// assert_eq!([67_108_864.0, 5e12].map(binary), ["64 MiB", "4656.613 GiB"]);
/// ```
#[must_use]
pub fn binary(mut bytes: f64) -> String {
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB"] {
        if bytes < 1024.0 {
            break;
        }
        (bytes, unit) = (bytes / 1024.0, larger);
    }
    format!("{} {unit}", (bytes * 1e3).round() / 1e3)
}

/// Returns rows of cells as lines, columns two spaces apart; those in `left` are aligned left, all others, which are
/// numbers, right.
///
/// ```
/// use polyshard::machine::units::table;
/// let rows = [["ring", "8"], ["all", "128"]].map(|row| row.map(String::from));
/// assert_eq!(table(&rows, &[0]), "ring    8\nall   128\n");
/// ```
#[must_use]
pub fn table(rows: &[impl AsRef<[String]>], left: &[usize]) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().map(|row| row.as_ref().get(column).map_or(0, |cell| cell.chars().count())).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let cell = |(column, cell): (usize, &String)| {
        let width = widths[column];
        if left.contains(&column) { format!("{cell:width$}") } else { format!("{cell:>width$}") }
    };
    let line = |row: &[String]| {
        let cells: Vec<_> = row.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(|row| line(row.as_ref())).collect()
}

fn digits(value: f64) -> String {
    // Quotients of decimal numbers can miss integers in their last bits.
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
