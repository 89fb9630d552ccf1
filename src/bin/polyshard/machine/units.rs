//! Numbers with units, as people read and write them.

/// Reads a size in bytes: a number, with KiB, MiB or GiB behind it or not.
///
/// # Errors
/// What to write instead.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let lower = text.trim().to_ascii_lowercase();
    let units = [("kib", 10), ("mib", 20), ("gib", 30), ("b", 0), ("", 0)];
    let split = units.iter().find_map(|&(unit, shift)| Some((lower.strip_suffix(unit)?, shift)));
    let read = split.and_then(|(digits, shift)| digits.trim().parse::<usize>().ok()?.checked_mul(1 << shift));
    read.ok_or_else(|| format!("cannot read the size `{text}`; write bytes such as 4096, 4KiB or 64MiB"))
}

/// Writes bytes in units of 1024.
pub(crate) fn binary(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Writes a rate or an amount in units of 1000 of `unit`.
pub(crate) fn decimal(value: f64, unit: &str) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P"].map(|prefix| format!("{prefix}{unit}")))
}

/// Writes seconds in the unit that leaves a number between 1 and 1000 before it.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".into();
    }
    scaled(seconds * 1e9, 1000.0, &["ns", "us", "ms", "s"])
}

fn scaled(mut value: f64, step: f64, units: &[impl AsRef<str>]) -> String {
    let mut units = units.iter().map(AsRef::as_ref);
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        // What is rounded up to a whole step is written as one of the larger unit.
        if value < step * (1.0 - 5e-4) {
            break;
        }
        (value, unit) = (value / step, larger);
    }
    let digits = 2usize.saturating_sub(value.abs().max(1.0).log10() as usize);
    let number = format!("{value:.digits$}");
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let read = ["512", " 4KiB", "64 MiB", "1gib", "8B"].map(|text| size(text).ok());
        assert_eq!(read, [512, 4096, 64 << 20, 1 << 30, 8].map(Some));
        for text in ["", "KiB", "1.5KiB", "-4", "1kb", "99999999999GiB"] {
            let said = size(text).unwrap_err();
            assert_eq!(said, format!("cannot read the size `{text}`; write bytes such as 4096, 4KiB or 64MiB"));
        }
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!([1.0, 1024.0, 1536.0, 1e9].map(binary), ["1 B", "1 KiB", "1.5 KiB", "954 MiB"]);
        assert_eq!([2.7e11, 9.9996e5, 12.0].map(|rate| decimal(rate, "B/s")), ["270 GB/s", "1 MB/s", "12 B/s"]);
        assert_eq!([2e-5, 4.3e-7, 0.0, 1.5, 1e-12].map(seconds), ["20 us", "430 ns", "0 s", "1.5 s", "0 ns"]);
    }
}
