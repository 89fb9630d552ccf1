//! Names of the analysis from Rust identifiers.

use polyshard_layout::Name;
use proc_macro2::Span;
use syn::Ident;

/// Returns the name of an identifier: that of `r#loop` is `loop`, as in texts.
#[must_use]
pub fn name(ident: &Ident) -> Name {
    Name::new(&syn::ext::IdentExt::unraw(ident).to_string())
}

/// The identifier at another place.
pub(crate) fn moved(ident: &Ident, at: Span) -> Ident {
    let mut ident = ident.clone();
    ident.set_span(at);
    ident
}
