//! Errors: collected, each with help, reported all at once.
//!
//! A user who made three mistakes sees three errors. So a check adds to [`Errors`] and goes on; only
//! syntax that cannot be read stops at once, because what follows it has no meaning.
//!
//! ```text
//! error: index `q` of output `C` appears in no input, so its extent is unknown
//!        help: use it in an input access or give its range: `for q in 0..n`
//! ```
//!
//! The help is a second line of the message, since `compile_error!` has no notes; from a text, `ParseError` adds lines and columns.

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

    /// Adds the error of a failed result, and returns the value of a good one.
    pub fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// Stops if there are errors, since nothing that follows could be said rightly.
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

/// What stands between what is wrong and what to do, in a message that has both.
const HELP: &str = "\nhelp: ";

/// Returns one error on the tokens `at`: what is wrong, and on a second line what to do.
pub fn error(at: impl ToTokens, message: impl Display, help: impl Display) -> syn::Error {
    syn::Error::new_spanned(at, with_help(message, help))
}

/// A message that has both.
pub(crate) fn with_help(message: impl Display, help: impl Display) -> String {
    format!("{message}{HELP}{help}")
}

/// What is wrong, and what to do, if the message says it.
pub(crate) fn parts(message: &str) -> (String, Option<String>) {
    match message.split_once(HELP) {
        Some((what, help)) => (what.to_owned(), Some(help.to_owned())),
        None => (message.to_owned(), None),
    }
}

/// Returns an error on the tokens `at` with what to do, if that is known.
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

/// Returns a count with its noun: `1 index`, `2 indices`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
