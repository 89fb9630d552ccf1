//! Names of the analysis from identifiers of Rust.

use polyshard_layout::Name;
use syn::Ident;

/// Returns the name that an identifier stands for: that of `r#loop` is `loop`, as texts write it.
#[must_use]
pub fn name(ident: &Ident) -> Name {
    Name::new(&syn::ext::IdentExt::unraw(ident).to_string())
}
