//! Names of the analysis from Rust identifiers, and names of versions.
//!
//! Identifiers of versions have a dot, which nobody writes, in place of the prime of their names: `A·2` for `A'2`.

use polyshard_layout::Name;
use proc_macro2::Span;
use std::fmt;
use syn::Ident;
use syn::ext::IdentExt;

/// What is in identifiers in place of a prime.
pub(crate) const PRIME: char = '·';

/// Returns the name of an identifier: that of `r#loop` is `loop`, as in texts.
#[must_use]
pub fn name(ident: &Ident) -> Name {
    Name::new(&ident.unraw().to_string().replace(PRIME, "'"))
}

/// The identifier at another place.
pub(crate) fn moved(ident: &Ident, at: Span) -> Ident {
    let mut ident = ident.clone();
    ident.set_span(at);
    ident
}

/// A version of an array.
pub(crate) fn version(array: &Ident, number: impl fmt::Display) -> Ident {
    Ident::new(&format!("{}{PRIME}{number}", array.unraw()), array.span())
}

/// The array of which an identifier is a version.
pub(crate) fn array(version: &Ident) -> Ident {
    let text = version.to_string();
    text.split_once(PRIME).map_or_else(|| version.clone(), |(array, _)| named(array, version.span()))
}

/// An identifier with this name, raw if it is a keyword.
fn named(name: &str, at: Span) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, at),
        Err(_) => Ident::new_raw(name, at),
    }
}
