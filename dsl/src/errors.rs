//! Errors: collected, each with help, reported all at once.
//!
//! A user who made three mistakes sees three errors. So a check adds to [`Errors`] and continues; only syntax that cannot be parsed
//! stops at once, because the rest would be meaningless.
//!
//! ```text
//! error: index `q` of output `C` appears in no input, so its extent is unknown
//!        help: use it in an input access or give its range: `for q in 0..n`
//! ```
//!
//! The help is a second line of the message, since `compile_error!` has no notes; from a text, `ParseError` adds lines and columns.

use proc_macro2::Span;
use quote::ToTokens;
use std::fmt::Display;

/// The errors found so far.
#[derive(Default)]
pub struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds an error on the tokens `at`.
    pub fn push(&mut self, at: impl ToTokens, message: impl Display, help: impl Display) {
        self.add(error(at, message, help));
    }

    /// Adds an error.
    pub fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value of a result, or adds its error.
    pub fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// Stops if there are errors, when later checks would be unreliable.
    ///
    /// # Errors
    /// The errors so far.
    pub fn stop(&mut self) -> syn::Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }

    /// Returns `value`, unless there was an error.
    ///
    /// # Errors
    /// All errors.
    pub fn finish<T>(self, value: T) -> syn::Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}

/// The separator of a message and its help.
const HELP: &str = "\nhelp: ";

/// Returns an error on the tokens `at`: the message, and on a second line the help.
pub fn error(at: impl ToTokens, message: impl Display, help: impl Display) -> syn::Error {
    syn::Error::new_spanned(at, with_help(message, help))
}

/// Returns an error at a place, such as the end of a text, that has no tokens: the message, and on a second line the help.
pub(crate) fn error_at(place: Span, message: impl Display, help: impl Display) -> syn::Error {
    syn::Error::new(place, with_help(message, help))
}

/// A message with its help.
pub(crate) fn with_help(message: impl Display, help: impl Display) -> String {
    format!("{message}{HELP}{help}")
}

/// The message, and its help if it has one.
pub(crate) fn parts(message: &str) -> (String, Option<String>) {
    match message.split_once(HELP) {
        Some((what, help)) => (what.to_owned(), Some(help.to_owned())),
        None => (message.to_owned(), None),
    }
}

/// Returns an error on the tokens `at`, with help if given.
pub fn reported(at: impl ToTokens, message: impl Display, help: Option<String>) -> syn::Error {
    match help {
        Some(help) => error(at, message, help),
        None => syn::Error::new_spanned(at, message),
    }
}

/// Returns the items as prose: `a`, `b` and `c`, each in backticks.
pub fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| format!("`{item}`")).collect();
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => "none".into(),
    }
}
