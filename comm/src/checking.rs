//! What variables of the environment choose: whether a program is checked, and how long a rank waits before it reports where it is.

use crate::{LaunchError, Result};
use std::time::Duration;

/// How long a rank waits before it asks for the others' positions.
const LIMIT: Duration = Duration::from_secs(10);

/// Returns whether the program or its environment asks for checks, and how long a rank waits before it reports.
///
/// # Errors
/// If a variable of the environment has an invalid value.
pub fn settings(asked: bool) -> Result<(bool, Duration)> {
    from(asked, variable)
}

/// Returns the value of a variable of the environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns the choice that the value of the variable `name` names, or `default` if it is unset or empty.
///
/// # Errors
/// [`LaunchError::Variable`] if it names none.
///
/// # Panics
/// If there are no choices.
pub fn chosen<T: Copy>(name: &'static str, value: Option<String>, default: T, choices: &[(&str, T)]) -> Result<T> {
    let Some(value) = value.as_deref().map(str::trim).filter(|value| !value.is_empty()) else { return Ok(default) };
    let choice = choices.iter().find(|choice| choice.0 == value).map(|choice| choice.1);
    choice.ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
        let (last, others) = names.split_last().expect("a variable has choices");
        let expected = format!("{} or {last}", others.join(", "));
        LaunchError::Variable { name, value: value.into(), expected: expected.into() }.into()
    })
}

fn from(asked: bool, variable: impl Fn(&str) -> Option<String>) -> Result<(bool, Duration)> {
    let asked = chosen("POLYSHARD_CHECK", variable("POLYSHARD_CHECK"), asked, &[("1", true), ("0", asked)])?;
    let name = "POLYSHARD_WAIT_SECONDS";
    let limit = match variable(name) {
        None => LIMIT,
        Some(value) => match value.trim().parse().map(Duration::try_from_secs_f64) {
            Ok(Ok(limit)) if !limit.is_zero() => limit,
            _ => {
                let expected = "a number of seconds above 0, such as 10".into();
                return Err(LaunchError::Variable { name, value: value.into(), expected }.into());
            }
        },
    };
    Ok((asked, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        asked: bool,
        check: Option<&str>,
        seconds: Option<&str>,
        expected: std::result::Result<(bool, f64), &str>,
    ) {
        let variable = |name: &str| if name == "POLYSHARD_CHECK" { check } else { seconds }.map(String::from);
        let found = from(asked, variable).map(|(asked, limit)| (asked, limit.as_secs_f64()));
        assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(String::from));
    }

    #[test]
    fn a_program_is_checked_if_it_or_its_environment_says_so() {
        check(false, None, None, Ok((false, 10.0)));
        check(true, None, None, Ok((true, 10.0)));
        check(true, Some("0"), None, Ok((true, 10.0)));
        check(false, Some("1"), Some("0.5"), Ok((true, 0.5)));
        check(false, Some(""), Some("3"), Ok((false, 3.0)));
    }

    #[test]
    fn other_values_are_refused() {
        check(false, Some("yes"), None, Err("`POLYSHARD_CHECK` is `yes`: set it to 1 or 0"));
        for seconds in ["0", "-1", "soon", "nan", "1e300"] {
            let message =
                format!("`POLYSHARD_WAIT_SECONDS` is `{seconds}`: set it to a number of seconds above 0, such as 10");
            check(true, None, Some(seconds), Err(&message));
        }
    }
}
