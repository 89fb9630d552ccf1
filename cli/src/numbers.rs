//! Numbers on a command line: what cannot be read is answered with what to write instead.
//!
//! The standard library's own words, such as "invalid digit found in string", do not say what was expected.

use crate::error::{CliError, Result};
use std::any::type_name;
use std::str::FromStr;

/// Reads a whole number.
///
/// # Errors
/// If the text is not a whole number, or the type does not hold it.
pub(crate) fn whole<T: TryFrom<u128>>(text: &str) -> Result<T> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CliError::NotANumber { expected: "a whole number, 0 or more" });
    }
    // More digits than a u128 has are too large for every type.
    let number = u128::from_str(digits).unwrap_or(u128::MAX);
    T::try_from(number).map_err(|_| CliError::Overflow { fits: type_name::<T>() })
}

/// Reads a number, which may have a fraction or an exponent.
///
/// # Errors
/// If the text is not a number; NaN is refused too.
pub(crate) fn real(text: &str) -> Result<f64> {
    let number = text.trim().parse::<f64>().ok().filter(|number| !number.is_nan());
    number.ok_or(CliError::NotANumber { expected: "a number, such as 0.5 or 1e9" })
}

/// Reads whole numbers with commas between them; `like` is an example.
///
/// # Errors
/// If they are not, or a number is too large.
pub(crate) fn list(text: &str, like: &str) -> Result<Vec<usize>> {
    let read = |part: &str| {
        let form = || format!("whole numbers with commas between them, such as {like}");
        whole(part).map_err(|_| CliError::unreadable(format!("`{part}`"), form()))
    };
    text.split(',').map(read).collect()
}

/// Reads a size in bytes: a number, with KiB, MiB or GiB behind it or not.
///
/// # Errors
/// What to write instead.
pub(crate) fn size(text: &str) -> Result<usize> {
    let lower = text.trim().to_ascii_lowercase();
    let units = [("kib", 10), ("mib", 20), ("gib", 30), ("b", 0), ("", 0)];
    let split = units.iter().find_map(|&(unit, shift)| Some((lower.strip_suffix(unit)?, shift)));
    let read = split.and_then(|(digits, shift)| digits.trim().parse::<usize>().ok()?.checked_mul(1 << shift));
    read.ok_or_else(|| CliError::unreadable(format!("the size `{text}`"), "bytes such as 4096, 4KiB or 64MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let read = ["512", " 4KiB", "64 MiB", "1gib", "8B"].map(|text| size(text).ok());
        assert_eq!(read, [512, 4096, 64 << 20, 1 << 30, 8].map(Some));
        for text in ["", "KiB", "1.5KiB", "-4", "1kb", "99999999999GiB"] {
            let said = size(text).unwrap_err().to_string();
            assert_eq!(said, format!("cannot read the size `{text}`; write bytes such as 4096, 4KiB or 64MiB"));
        }
    }
}
