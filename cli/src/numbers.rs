//! Numbers on a command line. Errors say which form is expected.
//!
//! The standard library's messages, such as `invalid digit found in string`, do not.

use crate::error::{CliError, Result};
use polyshard::layout::joined;
use std::any::type_name;
use std::str::FromStr;

/// Reads a whole number.
pub(crate) fn whole<T: TryFrom<u128>>(text: &str) -> Result<T> {
    read(text, "a whole number, 0 or more")
}

/// Reads a whole number that is not 0.
pub(crate) fn count(text: &str) -> Result<usize> {
    let expected = "a whole number, 1 or more";
    let number = read(text, expected)?;
    if number == 0 { Err(CliError::NotANumber { expected }) } else { Ok(number) }
}

/// Reads a whole number; `expected` completes the message "give ..".
fn read<T: TryFrom<u128>>(text: &str, expected: &'static str) -> Result<T> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CliError::NotANumber { expected });
    }
    // More digits than a u128 has are too large for every type.
    let number = u128::from_str(digits).unwrap_or(u128::MAX);
    T::try_from(number).map_err(|_| CliError::Overflow { fits: type_name::<T>() })
}

/// Reads a number, perhaps with a fraction or an exponent; not NaN.
pub(crate) fn real(text: &str) -> Result<f64> {
    let number = text.trim().parse::<f64>().ok().filter(|number| !number.is_nan());
    number.ok_or(CliError::NotANumber { expected: "a number, such as 0.5 or 1e9" })
}

/// Reads a size in bytes, at least 1: a number, perhaps with a fraction, and perhaps a unit. kB, MB, GB and TB are powers of 1000; KiB, MiB,
/// GiB and TiB of 1024. Fractions of a byte are dropped.
pub(crate) fn size(text: &str) -> Result<usize> {
    let lower = text.trim().to_ascii_lowercase();
    let split = UNITS.iter().find_map(|&(unit, bytes)| Some((lower.strip_suffix(unit)?, bytes)));
    match split.and_then(|(number, unit)| usize::try_from(times(number.trim(), unit)?).ok()) {
        Some(0) => Err(CliError::NotANumber { expected: "a size of at least 1 byte, such as 64MiB" }),
        Some(bytes) => Ok(bytes),
        None => {
            let form = "bytes such as 4096, 64MiB, 1.5GiB or 2GB; the largest units are TB and TiB";
            Err(CliError::unreadable(format!("the size `{text}`"), form))
        }
    }
}

/// The units of sizes and their bytes; a unit precedes its own suffixes.
const UNITS: [(&str, u128); 10] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
    ("", 1),
];

/// A decimal number times a whole one, rounded down; exact, so without floats.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 18 {
        return None;
    }
    let part = part.parse::<u128>().ok()?.checked_mul(unit)? / 10_u128.pow(part.len() as u32);
    whole.parse::<u128>().ok()?.checked_mul(unit)?.checked_add(part)
}

/// Returns the extents of an array as text: `4 x 5`, or `one element` if it has no dimensions.
pub(crate) fn extents(shape: &[usize]) -> String {
    if shape.is_empty() { "one element".to_owned() } else { joined(shape, " x ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let read = ["512", " 4KiB", "64 MiB", "1gib", "8B"].map(|text| size(text).ok());
        assert_eq!(read, [512, 4096, 64 << 20, 1 << 30, 8].map(Some));
        let read = ["2GB", "1.5MiB", "512MB", "1.5 KiB", "0.1kB", "2tb", "1.0001kB"].map(|text| size(text).ok());
        assert_eq!(read, [2_000_000_000, 3 << 19, 512_000_000, 1536, 100, 2_000_000_000_000, 1000].map(Some));
        for text in ["", "KiB", "1.KiB", ".5", "-4", "1e3", "2G", "1EB", "99999999999GiB", "1.2.3MB"] {
            let said = size(text).unwrap_err().to_string();
            let form = "bytes such as 4096, 64MiB, 1.5GiB or 2GB; the largest units are TB and TiB";
            assert_eq!(said, format!("cannot read the size `{text}`; write {form}"));
        }
        for text in ["0", "0.0GB", "0.1B"] {
            assert_eq!(size(text).unwrap_err().to_string(), "give a size of at least 1 byte, such as 64MiB");
        }
    }
}
