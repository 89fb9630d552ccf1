//! Files of the command line: those that are written are drawings, and machines as TOML.

use crate::error::{CliError, Result};
use polyshard::draw::DrawError;
use polyshard::runtime::Output;
use std::io;
use std::path::Path;

/// Returns what could not be done with a file, and why.
pub(crate) fn failed(doing: &'static str, path: &Path, why: io::Error) -> CliError {
    CliError::File { doing, path: path.into(), why }
}

/// Looks at the place of a file that is asked for, before the work for it is done.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn check(path: Option<&Path>) -> Result<()> {
    Ok(path.map_or(Ok(()), |path| Output::new(path).map(drop))?)
}

/// Writes a file, all of it or nothing.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn save(path: &Path, text: &str) -> Result<()> {
    Ok(Output::new(path)?.write(text.as_bytes())?)
}

/// Returns a picture for `--draw`.
///
/// # Errors
/// If there is no room for it.
pub(crate) fn drawn(picture: Result<String, DrawError>) -> Result<String> {
    picture.map_err(CliError::Draw)
}
