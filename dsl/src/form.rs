//! Where kernels and chains are written, which decides the error on a number that is not known there.

use crate::errors::error;
use quote::ToTokens;

/// The source of a kernel or a chain.
///
/// The grammar is the same. Only the help differs where a number is missing: a macro's user may build the schedule by methods, whose
/// arguments are any expressions, but a text's user has to write the number.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// The tokens of a macro, inside a program.
    Macro,
    /// A text on its own.
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

    /// Returns the error on an expression that is not a literal: `what` is needed; a program may supply it `later`.
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
