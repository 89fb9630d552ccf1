//! The result of parsing tokens, as text, or its errors with the text that they point at; also for the unit tests of the macros.

use proc_macro2::TokenStream;
use syn::Result;

pub(crate) fn shown(input: &str, expand: impl Fn(TokenStream) -> Result<String>) -> String {
    let tokens: TokenStream = match input.parse() {
        Ok(tokens) => tokens,
        Err(error) => return format!("the input is no Rust tokens: {error}\n"),
    };
    match expand(tokens) {
        Ok(text) => text,
        Err(errors) => errors.into_iter().map(line).collect(),
    }
}

fn line(error: syn::Error) -> String {
    let at = error.span().source_text().unwrap_or_default();
    format!("error on `{at}`: {}\n", error.to_string().replace('\n', "\n  "))
}
