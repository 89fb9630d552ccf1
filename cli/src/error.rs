//! Why the command line does not do what it is asked for.

use crate::snippets::shown;
use polyshard::Error;
use polyshard::draw::DrawError;
use polyshard::machine::MachineError;
use polyshard::schedule::LowerError;
use polyshard::text::{Mistake, ParseError};
use std::io;
use std::path::PathBuf;

/// The result of what the command line does.
pub type Result<T, E = CliError> = std::result::Result<T, E>;

/// What is wrong: with the words, with what they ask for, or with what came of it.
///
/// What a library refuses is there as it says it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum CliError {
    /// A text is not of the form that is expected.
    #[error("cannot read {text}; write {form}")]
    Unreadable { text: String, form: String },
    /// A number is not of the kind that is expected, of which there is an example.
    #[error("give {expected}")]
    NotANumber { expected: &'static str },
    /// A number does not fit the type that holds it.
    #[error("the number is too large; give one that fits `{fits}`")]
    Overflow { fits: &'static str },
    /// A number that is part of a text is larger than any that is counted.
    #[error("`{part}` in the {what} `{text}` is more than can be counted; give a smaller number")]
    Uncountable { part: String, what: &'static str, text: String },
    /// A number is too small or too large for what it says.
    #[error("{what} must be {range}, found {found}")]
    OutOfRange { what: &'static str, range: &'static str, found: f64 },
    /// Something that is needed is not given.
    #[error("{what}; {give}")]
    Missing { what: String, give: String },
    /// There is nothing of this name: what is sought, and where.
    #[error("no {name}; {known}")]
    Unknown { name: String, known: String },
    /// Neither a machine of the library nor a file.
    #[error("{0}; a machine of your own is a file, such as machine.toml")]
    UnknownMachine(Box<MachineError>),
    /// Something is given twice.
    #[error("two {what} are given for {subject}; give one")]
    Twice { what: &'static str, subject: String },
    /// A value can be read, but does not fit the others, or asks for more than is done.
    #[error("{what}; {instead}")]
    Refused { what: String, instead: String },
    /// A library refuses a text.
    #[error("{text}: {why}")]
    Invalid { text: String, why: Box<Error> },
    /// A file of kernels has mistakes.
    #[error("{}", shown(path, text, mistakes))]
    Mistakes { path: PathBuf, text: String, mistakes: Vec<Mistake> },
    /// What all ranks know, since one has found it for all, as it says it.
    #[error("{what}")]
    Said { what: String },
    /// A trace has no program, because of a step if it is one.
    #[error("{step}{}", why.kind())]
    Trace { step: String, why: Box<LowerError> },
    /// A file cannot be used.
    #[error("cannot {doing} `{}`: {why}", path.display())]
    File { doing: &'static str, path: PathBuf, why: io::Error },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// There is no room for a picture.
    #[error("`--draw` has {0}")]
    Draw(DrawError),
    /// Measurements cannot be drawn.
    #[error("`--plot`: {0}")]
    Plot(DrawError),
    /// Two arrays are not equal.
    #[error("{what}")]
    Different { what: String },
    /// Problems of a batch have no plan.
    #[error("no plan for {refused} of {problems}; the answer on the line of each says why")]
    Batch { refused: usize, problems: String },
    /// A run gave what it must not give.
    #[error("{what}; this is a bug of polyshard")]
    Bug { what: String },
    /// What a library refuses.
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
    /// Returns the error for a text that cannot be read; `form` is what to write.
    pub(crate) fn unreadable(text: impl Into<String>, form: impl Into<String>) -> Self {
        Self::Unreadable { text: text.into(), form: form.into() }
    }

    /// Returns the error for something that is not given.
    pub(crate) fn missing(what: impl Into<String>, give: impl Into<String>) -> Self {
        Self::Missing { what: what.into(), give: give.into() }
    }

    /// Returns the error for a name that nothing has.
    pub(crate) fn unknown(name: impl Into<String>, known: impl Into<String>) -> Self {
        Self::Unknown { name: name.into(), known: known.into() }
    }

    /// Returns the error for a text that a library refuses.
    pub(crate) fn invalid(text: impl Into<String>, why: impl Into<Error>) -> Self {
        Self::Invalid { text: text.into(), why: Box::new(why.into()) }
    }

    /// Returns the error for mistakes of what an option says, where they stand in it; what was read is not quite what was written, and
    /// `place` says which byte of that is which of this.
    pub(crate) fn mistaken(option: &str, text: &str, error: ParseError, place: impl Fn(usize) -> usize) -> Self {
        let mistakes = error.mistakes.into_iter().map(|mistake| {
            let [start, end] = [mistake.at.start, mistake.at.end].map(|at| place(at).min(text.len()));
            Mistake::new(text, start..end, mistake.message, mistake.help)
        });
        Self::Mistakes { path: option.into(), text: text.to_owned(), mistakes: mistakes.collect() }
    }

    /// Returns the error for a value that does not fit the others, or for more than is done.
    pub(crate) fn refused(what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), instead: instead.into() }
    }
}
