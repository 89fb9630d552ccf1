//! Names of the analysis from Rust identifiers.

use polyshard_layout::Name;
use syn::Ident;

/// Returns the name of an identifier: that of `r#loop` is `loop`, as in texts.
#[must_use]
pub fn name(ident: &Ident) -> Name {
    Name::new(&syn::ext::IdentExt::unraw(ident).to_string())
}
