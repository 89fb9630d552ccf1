//! Errors of the command line.

use crate::snippets::shown;
use polyshard::Error;
use polyshard::draw::DrawError;
use polyshard::machine::MachineError;
use polyshard::schedule::LowerError;
use polyshard::text::{Mistake, ParseError};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// The result of a command.
pub type Result<T, E = CliError> = std::result::Result<T, E>;

/// An error in the arguments, in a file, or in the outcome of a command.
///
/// Errors of the libraries are passed on unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum CliError {
    /// A text does not have the expected form.
    #[error("cannot read {text}; write {form}")]
    Unreadable { text: String, form: String },
    /// A text is not a number of the expected kind.
    #[error("give {expected}")]
    NotANumber { expected: &'static str },
    /// A number does not fit the type that holds it.
    #[error("the number is too large; give one that fits `{fits}`")]
    Overflow { fits: &'static str },
    /// A number that is part of a text does not fit.
    #[error("`{part}` in the {what} `{text}` does not fit in 64 bits; give a smaller number")]
    Uncountable { part: String, what: &'static str, text: String },
    /// A number is out of range.
    #[error("{what} must be {range}, found {found}")]
    OutOfRange { what: &'static str, range: &'static str, found: f64 },
    /// Something required is missing.
    #[error("{what}; {give}")]
    Missing { what: String, give: String },
    /// Neither a preset machine nor a file.
    #[error("{0}; a machine of your own is a file, such as machine.toml")]
    UnknownMachine(Box<MachineError>),
    /// Something is given twice.
    #[error("two {what} are given for {subject}; give one")]
    Twice { what: &'static str, subject: String },
    /// An unknown name, or a valid value that contradicts others or exceeds a limit.
    #[error("{what}; {instead}")]
    Refused { what: String, instead: String },
    /// A text that a library rejects.
    #[error("{text}: {why}")]
    Invalid { text: String, why: Box<Error> },
    /// A file of kernels has mistakes.
    #[error("{}", shown(path, text, mistakes))]
    Mistakes { path: PathBuf, text: String, mistakes: Vec<Mistake> },
    /// An error that all ranks share; the first prints it.
    #[error("{what}")]
    Said { what: String },
    /// A trace that cannot be lowered, with the failing step if known.
    #[error("{step}{}", why.kind())]
    Trace { step: String, why: Box<LowerError> },
    /// A file cannot be used.
    #[error("cannot {doing} `{}`: {why}", path.display())]
    File { doing: &'static str, path: PathBuf, why: io::Error },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// A picture that is too large.
    #[error("`--draw`: {0}")]
    Draw(DrawError),
    /// Measurements cannot be drawn.
    #[error("`--plot`: {0}")]
    Plot(DrawError),
    /// Two arrays are not equal.
    #[error("{what}")]
    Different { what: String },
    /// Some problems of a batch have no plan.
    #[error("no plan for {refused} of {problems}; their answers say why")]
    Batch { refused: usize, problems: String },
    /// A bug: a result that must not occur.
    #[error("{what}; this is a bug in polyshard")]
    Bug { what: String },
    /// An error of a library.
    #[error(transparent)]
    Library(Error),
}

impl<E> From<E> for CliError
where
    Error: From<E>,
{
    fn from(why: E) -> Self {
        Self::Library(why.into())
    }
}

impl CliError {
    /// Returns the error for a text that cannot be read; `form` describes the valid ones.
    pub(crate) fn unreadable(text: impl Into<String>, form: impl Into<String>) -> Self {
        Self::Unreadable { text: text.into(), form: form.into() }
    }

    /// Returns the error for something required that is missing.
    pub(crate) fn missing(what: impl Into<String>, give: impl Into<String>) -> Self {
        Self::Missing { what: what.into(), give: give.into() }
    }

    /// Returns the error for an unknown name; `known` says which there are.
    pub(crate) fn unknown(name: impl Display, known: impl Into<String>) -> Self {
        Self::refused(format!("no {name}"), known)
    }

    /// Returns the error for a text that a library rejects.
    pub(crate) fn invalid(text: impl Into<String>, why: impl Into<Error>) -> Self {
        Self::Invalid { text: text.into(), why: Box::new(why.into()) }
    }

    /// Returns the error for mistakes in the value of an option, shown in place. `place` maps bytes of the parsed text to those of `text`.
    pub(crate) fn mistaken(option: &str, text: &str, error: ParseError, place: impl Fn(usize) -> usize) -> Self {
        let mistakes = error.mistakes.into_iter().map(|mistake| {
            let [start, end] = [mistake.at.start, mistake.at.end].map(|at| place(at).min(text.len()));
            Mistake::new(text, start..end, mistake.message, mistake.help)
        });
        Self::Mistakes { path: option.into(), text: text.to_owned(), mistakes: mistakes.collect() }
    }

    /// Returns the error for a value that contradicts others, or exceeds a limit.
    pub(crate) fn refused(what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), instead: instead.into() }
    }
}
