//! Files of the command line: arrays by name or by position, drawings, and machines as TOML.

use crate::error::{CliError, Result};
use crate::say::remark;
use clap::builder::{OsStringValueParser, TypedValueParser};
use polyshard::draw::DrawError;
use polyshard::layout::Name;
use polyshard::runtime::Output;
use std::io;
use std::path::{Path, PathBuf};

/// The file of an array, and the array's name if that is given: `A=A.npy`, or `A.npy` alone.
#[derive(Clone, Debug)]
pub(crate) struct ArrayFile {
    pub(crate) name: Option<Name>,
    pub(crate) path: PathBuf,
}

/// Reads the file of an array. Of `./a=b.npy` all is the path, since `./a` cannot be a name.
pub(crate) fn array_file() -> impl TypedValueParser<Value = ArrayFile> {
    OsStringValueParser::new().map(|text| {
        let named = text.to_str().and_then(|text| text.split_once('='));
        let named = named.map(|(name, path)| (Name::new(name), PathBuf::from(path)));
        match named.filter(|(name, _)| name.is_identifier()) {
            Some((name, path)) => ArrayFile { name: Some(name), path },
            None => ArrayFile { name: None, path: text.into() },
        }
    })
}

/// Returns what could not be done with a file, and why.
pub(crate) fn failed(doing: &'static str, path: &Path, why: io::Error) -> CliError {
    CliError::File { doing, path: path.into(), why }
}

/// Checks that a file can be written, and prints the names of partial files that killed runs have left beside it.
pub(crate) fn output(path: &Path) -> Result<Output> {
    let output = Output::new(path)?;
    for file in output.left_over() {
        let file = file.display();
        remark(&format_args!("`{file}` is left over from a run that was killed while it wrote; remove it"));
    }
    Ok(output)
}

/// Looks at the place of a file that is asked for, before the work for it is done.
pub(crate) fn check(path: Option<&Path>) -> Result<()> {
    path.map_or(Ok(()), |path| output(path).map(drop))
}

/// Checks that the file for a result is called as what will be in it, before anything is read.
///
/// # Errors
/// If its name does not end in `.npy` and it is no device or pipe.
pub(crate) fn check_npy(path: &Path) -> Result<()> {
    let is_called_so = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"));
    let is_stream = path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir());
    if is_called_so || is_stream {
        return Ok(());
    }
    let (what, name) = match path.file_name() {
        Some(_) if !path.is_dir() => ("does not end in `.npy`, which is what is written", path.with_extension("npy")),
        _ => ("is a folder", path.join("out.npy")),
    };
    Err(CliError::refused(format!("`--out {}` {what}", path.display()), format!("write `--out {}`", name.display())))
}

/// Writes a file, all of it or nothing.
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
