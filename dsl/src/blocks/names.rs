//! Versions of arrays, numbered through a file.

use crate::errors::Errors;
use crate::name::{PRIME, version};
use std::collections::HashMap;
use syn::Ident;
use syn::ext::IdentExt;

/// The number of versions so far of arrays with each name, in all blocks of a file.
#[derive(Default)]
pub(crate) struct Versions(HashMap<String, usize>);

impl Versions {
    /// A new version of an array.
    pub(super) fn next(&mut self, array: &Ident) -> Ident {
        let count = self.0.entry(plain(array)).or_default();
        *count += 1;
        version(array, count)
    }
}

/// The name without the `r#` of a raw identifier.
pub(super) fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

/// Returns the errors with names of versions as they print.
pub(crate) fn in_names(errors: &syn::Error) -> syn::Error {
    let mut all = Errors::default();
    let shown = |error: syn::Error| syn::Error::new(error.span(), error.to_string().replace(PRIME, "'"));
    errors.into_iter().for_each(|error| all.add(shown(error)));
    all.finish(()).err().unwrap_or_else(|| errors.clone())
}
