//! Where kernels and chains are written, which decides what to say of a number that is not known there.

use crate::errors::error;
use quote::ToTokens;

/// What a kernel or a chain is read from.
///
/// The grammar is the same. What differs is the way out where a number is not written: a macro's user may build the schedule by methods,
/// whose arguments are any expressions, and a text's user has to write the number.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// The tokens of a macro, around which there is a program.
    Macro,
    /// A text, around which there is nothing.
    Text,
}

impl Form {
    /// Returns the error on an argument that is not a number.
    pub(crate) fn not_a_number(self, at: impl ToTokens) -> syn::Error {
        match self {
            Self::Macro => {
                let message = "expected a number that is known when the crate is compiled";
                error(at, message, "write literals and arithmetic on them, or use the chain as methods")
            }
            Self::Text => error(at, "expected a number", "write literals and arithmetic on them"),
        }
    }

    /// Returns the error on what is not written out: `what` is needed, which a program may also know `later`.
    pub(crate) fn not_literal(self, at: impl ToTokens, what: &str, help: &str, later: &str) -> syn::Error {
        match self {
            Self::Macro => {
                let help = format!("{help}, or use the chain as methods for {later}");
                error(at, format!("the compiled form needs {what}"), help)
            }
            Self::Text => error(at, format!("a text needs {what}"), help),
        }
    }
}
