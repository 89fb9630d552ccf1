//! Numbers on a command line: what cannot be read is answered with what to write instead.
//!
//! The command line, the examples and the benchmarks share this; the standard library's own words, such as those for a
//! digit that is none, say nothing of what was expected.

use std::any::type_name;
use std::str::FromStr;

/// Reads a whole number.
///
/// # Errors
/// If it is not one, or the type does not hold it.
pub fn whole<T: TryFrom<u128>>(text: &str) -> Result<T, String> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("give a whole number, 0 or more".into());
    }
    // More digits than a u128 has are too large for every type.
    let number = u128::from_str(digits).unwrap_or(u128::MAX);
    T::try_from(number).map_err(|_| format!("the number is too large; give one that fits `{}`", type_name::<T>()))
}

/// Reads a number, which may have a fraction or an exponent.
///
/// # Errors
/// If it is not one; that which stands for none, NaN, is refused too.
pub fn real(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| !number.is_nan());
    number.ok_or_else(|| "give a number, such as 0.5 or 1e9".to_owned())
}

/// Reads whole numbers with commas between them; `like` is an example.
///
/// # Errors
/// If they are not, or a number is too large.
pub fn list(text: &str, like: &str) -> Result<Vec<usize>, String> {
    let read = |part: &str| {
        let wrong = |_| format!("cannot read `{part}`; write whole numbers with commas between them, such as {like}");
        whole(part).map_err(wrong)
    };
    text.split(',').map(read).collect()
}
