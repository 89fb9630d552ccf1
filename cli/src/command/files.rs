//! Files on the command line: arrays by name or by position, and files to write.

use crate::error::{CliError, Result};
use crate::say::remark;
use clap::builder::{OsStringValueParser, TypedValueParser};
use polyshard::draw::DrawError;
use polyshard::layout::Name;
use polyshard::runtime::Output;
use std::io;
use std::path::{Path, PathBuf};

/// The file of an array, perhaps with the array's name: `A=A.npy` or `A.npy`.
#[derive(Clone, Debug)]
pub(crate) struct ArrayFile {
    pub(crate) name: Option<Name>,
    pub(crate) path: PathBuf,
}

/// Parses the file of an array. `./a=b.npy` is a path as a whole, since `./a` cannot be a name.
pub(crate) fn array_file() -> impl TypedValueParser<Value = ArrayFile> {
    OsStringValueParser::new().try_map(|text| {
        let named = text.to_str().and_then(|text| text.split_once('='));
        let named = named.map(|(name, path)| (Name::new(name), PathBuf::from(path)));
        match named.filter(|(name, _)| name.is_identifier()) {
            Some((name, path)) if path.as_os_str().is_empty() => {
                Err(CliError::missing(format!("no file name after `{name}=`"), format!("write `{name}={name}.npy`")))
            }
            _ if text.is_empty() => Err(CliError::missing("the file name is empty", "write `A.npy`")),
            Some((name, path)) => Ok(ArrayFile { name: Some(name), path }),
            None => Ok(ArrayFile { name: None, path: text.into() }),
        }
    })
}

/// Returns whether a file has the name of an array.
pub(crate) fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"))
}

/// Returns the error for an operation on a file that failed.
pub(crate) fn failed(doing: &'static str, path: &Path, why: io::Error) -> CliError {
    CliError::File { doing, path: path.into(), why }
}

/// Checks that a file can be written, and lists partial files that killed runs left beside it.
pub(crate) fn output(path: &Path) -> Result<Output> {
    let output = Output::new(path)?;
    for file in output.left_over() {
        let file = file.display();
        remark(&format_args!("`{file}` is left over from a run that was killed while it wrote; remove it"));
    }
    Ok(output)
}

/// Checks that a requested file can be written, before any work is done for it.
pub(crate) fn check(path: Option<&Path>) -> Result<()> {
    path.map_or(Ok(()), |path| output(path).map(drop))
}

/// Checks that the name of a result file ends in `.npy`, unless it is a device or a pipe, before anything is read.
pub(crate) fn check_npy(path: &Path) -> Result<()> {
    let is_stream = path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir());
    if is_npy(path) || is_stream {
        return Ok(());
    }
    let (what, name) = match path.file_name() {
        Some(_) if !path.is_dir() => ("does not end in `.npy`, which is what is written", path.with_extension("npy")),
        _ => ("is a folder", path.join("out.npy")),
    };
    Err(CliError::refused(format!("`--out {}` {what}", path.display()), format!("write `--out {}`", name.display())))
}

/// Writes a file, whole or not at all.
pub(crate) fn save(path: &Path, text: &str) -> Result<()> {
    Ok(Output::new(path)?.write(text.as_bytes())?)
}

/// Writes a picture to the file of `--draw`, if it is given.
pub(crate) fn draw(path: Option<&Path>, picture: impl FnOnce() -> Result<String, DrawError>) -> Result<()> {
    path.map_or(Ok(()), |path| save(path, &picture().map_err(CliError::Draw)?))
}
