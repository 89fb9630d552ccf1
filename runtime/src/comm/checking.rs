//! Whether a program is checked, as its environment says.

use crate::{LaunchError, Result};
use std::time::Duration;

/// How long a rank of a checked program waits before it asks where the others are.
const LIMIT: Duration = Duration::from_secs(10);

/// Returns that time, if the program asks to be checked or its environment does.
///
/// # Errors
/// If the environment says something else than it can.
pub(super) fn limit(asked: bool) -> Result<Option<Duration>> {
    from(asked, |name| std::env::var(name).ok())
}

fn from(asked: bool, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Duration>> {
    let asked = match variable("POLYSHARD_CHECK").as_deref().map(str::trim) {
        None | Some("" | "0") => asked,
        Some("1") => true,
        Some(value) => return Err(LaunchError::Check { value: value.into() }.into()),
    };
    let limit = match variable("POLYSHARD_CHECK_SECONDS") {
        None => LIMIT,
        Some(value) => match value.trim().parse().map(Duration::try_from_secs_f64) {
            Ok(Ok(limit)) if !limit.is_zero() => limit,
            _ => return Err(LaunchError::CheckSeconds { value }.into()),
        },
    };
    Ok(asked.then_some(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        asked: bool,
        check: Option<&str>,
        seconds: Option<&str>,
        expected: std::result::Result<Option<f64>, &str>,
    ) {
        let variable = |name: &str| if name == "POLYSHARD_CHECK" { check } else { seconds }.map(String::from);
        let found = from(asked, variable).map(|limit| limit.map(|limit| limit.as_secs_f64()));
        assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(String::from));
    }

    #[test]
    fn a_program_is_checked_if_it_or_its_environment_says_so() {
        check(false, None, None, Ok(None));
        check(true, None, None, Ok(Some(10.0)));
        check(true, Some("0"), None, Ok(Some(10.0)));
        check(false, Some("1"), Some("0.5"), Ok(Some(0.5)));
        check(false, Some(""), Some("3"), Ok(None));
    }

    #[test]
    fn other_values_are_refused() {
        check(false, Some("yes"), None, Err("`POLYSHARD_CHECK` is `yes`: set it to 1 or 0"));
        for seconds in ["0", "-1", "soon", "nan", "1e300"] {
            let message =
                format!("`POLYSHARD_CHECK_SECONDS` is `{seconds}`: set it to a number of seconds above 0, such as 10");
            check(true, None, Some(seconds), Err(&message));
        }
    }
}
