//! Sizes of messages, which are powers of two, as people read and write them.

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

/// Writes bytes in units of 1024, with at most three digits behind the point.
pub(crate) fn binary(mut bytes: f64) -> String {
    let mut units = ["B", "KiB", "MiB", "GiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if bytes < 1024.0 {
            break;
        }
        (bytes, unit) = (bytes / 1024.0, larger);
    }
    format!("{} {unit}", (bytes * 1e3).round() / 1e3)
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
    fn sizes_are_written_in_units_of_1024() {
        assert_eq!(
            [1.0, 1023.0, 1024.0, 1536.0, 67_108_864.0, 5e12].map(binary),
            ["1 B", "1023 B", "1 KiB", "1.5 KiB", "64 MiB", "4656.613 GiB",]
        );
    }
}
