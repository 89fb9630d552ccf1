//! Helpers for printed answers, and the forms of programs for `--print`.

use crate::error::{CliError, Result};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use polyshard::layout::joined;
use polyshard::program::Program;
use polyshard::runtime::Output;
use polyshard::source::{SourceOptions, rust_main, rust_source};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The forms of a program, of which each command takes some.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Print {
    /// The schedule of each kernel as a chain of steps, for a `.poly` file or `kernel!`.
    Chain,
    /// The program of one rank, as pseudo-code.
    Program,
    /// Each transfer with its pattern and the reason, proofs, bytes, bounds and hints.
    Explain,
    /// The predicted time of each part, and its bottleneck.
    Cost,
    /// The relations that are proved equal, in isl's notation.
    Relations,
    /// The program as Rust source.
    Source,
    /// A whole Rust crate that reads the arrays, runs the program and, with `--check`, checks the result.
    Main,
    /// The kernel and the steps of a trace.
    Trace,
}

impl Print {
    /// Returns the parser of an option that takes these forms.
    pub(crate) fn of(forms: &[Self]) -> impl TypedValueParser<Value = Self> + use<> {
        let names = forms.iter().filter_map(Self::to_possible_value);
        PossibleValuesParser::new(names).map(|name| Self::from_str(&name, false).expect("one of the names"))
    }
}

/// Returns the parser of an option with these values of a library, each with its name and its help.
pub(crate) fn choices<T: Clone + Send + Sync + 'static, const N: usize>(
    all: [(&'static str, T, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    let names = all.each_ref().map(|(name, _, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).map(move |name| {
        let chosen = all.iter().find(|(other, ..)| *other == name);
        chosen.expect("one of the names").1.clone()
    })
}

/// Returns a program in a form that needs nothing else; `folder` is for the crate of [`Print::Main`], which is listed without one.
pub(crate) fn printed(program: &Program, form: Print, folder: Option<&Path>) -> Result<String> {
    match form {
        Print::Explain => Ok(program.explain()),
        Print::Source => Ok(rust_source(program, &SourceOptions::default())),
        Print::Main => {
            let files = rust_main(program);
            let text = |(name, text): &(&str, String)| format!("// {name}\n\n{text}");
            folder.map_or_else(|| Ok(joined(files.iter().map(text), "\n")), |folder| write(folder, &files))
        }
        // Each command prints the forms of its schedules, costs and traces.
        Print::Program | Print::Chain | Print::Cost | Print::Relations | Print::Trace => Ok(program.to_string()),
    }
}

/// Writes files into a new folder.
fn write(folder: &Path, files: &[(&str, String)]) -> Result<String> {
    let failed = |why| CliError::File { doing: "write into", path: folder.into(), why };
    if folder.exists() {
        let what = format!("`{}` exists already", folder.display());
        return Err(CliError::refused(what, "give a new folder"));
    }
    fs::create_dir_all(folder.join("src")).map_err(failed)?;
    for (name, text) in files {
        Output::new(folder.join(name))?.write(text.as_bytes())?;
    }
    Ok(format!("wrote {0}/Cargo.toml and {0}/src/main.rs\n", folder.display()))
}

/// Returns a value as JSON on one line, without a line break.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("answers are plain data")
}

/// Returns an object without those of the `optional` entries that are null.
pub(crate) fn without_nulls(mut object: Value, optional: &[&str]) -> Value {
    if let Value::Object(entries) = &mut object {
        entries.retain(|name, value| !value.is_null() || !optional.contains(&name.as_str()));
    }
    object
}

/// Returns how many of `all` to list: `--top`, or `default`.
pub(crate) fn listed(top: Option<usize>, default: usize, all: usize) -> Result<usize> {
    match top {
        Some(0) => Err(CliError::refused("`--top 0` lists nothing", "give 1 or more")),
        top => Ok(top.unwrap_or(default).min(all)),
    }
}
