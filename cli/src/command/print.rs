//! Answers as text: tables for people, JSON for programs.

use crate::error::{CliError, Result};
use serde::Serialize;

/// Returns a value as JSON on one line, without its end.
///
/// # Panics
/// Never: answers are plain data.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is printed is plain data")
}

/// Returns how many of `all` are listed, by `--top` if it is given.
///
/// # Errors
/// If `top` is 0.
pub(crate) fn listed(top: Option<usize>, unless_told: usize, all: usize) -> Result<usize> {
    match top {
        Some(0) => Err(CliError::refused("`--top 0` lists nothing", "give 1 or more")),
        top => Ok(top.unwrap_or(unless_told).min(all)),
    }
}
