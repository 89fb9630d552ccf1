//! Files of the command line: those that are written are drawings, and machines as TOML.

use crate::draw::DrawError;
use crate::runtime::Output;
use std::fmt::Display;
use std::path::Path;

/// Returns what could not be done with a file, and why.
pub(crate) fn failed(doing: &str, path: &Path, why: impl Display) -> String {
    format!("cannot {doing} `{}`: {why}", path.display())
}

/// Looks at the place of a file that is asked for, before the work for it is done.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn check(path: Option<&Path>) -> Result<(), String> {
    path.map_or(Ok(()), |path| Output::new(path).map(drop).map_err(|why| why.to_string()))
}

/// Writes a file, all of it or nothing.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn save(path: &Path, text: &str) -> Result<(), String> {
    Output::new(path).and_then(|out| out.write(text.as_bytes())).map_err(|why| why.to_string())
}

/// Returns a picture for `--draw`.
///
/// # Errors
/// If there is no room for it.
pub(crate) fn drawn(picture: Result<String, DrawError>) -> Result<String, String> {
    picture.map_err(|why| format!("`--draw` has {why}"))
}
