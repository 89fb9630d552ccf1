//! Helpers for printed answers.

use crate::error::{CliError, Result};
use serde::Serialize;

/// Returns a value as JSON on one line, without a line break.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("answers are plain data")
}

/// Returns how many of `all` to list: `--top`, or `default`.
pub(crate) fn listed(top: Option<usize>, default: usize, all: usize) -> Result<usize> {
    match top {
        Some(0) => Err(CliError::refused("`--top 0` lists nothing", "give 1 or more")),
        top => Ok(top.unwrap_or(default).min(all)),
    }
}
