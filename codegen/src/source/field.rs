//! What an emitted `Prepared` owns.

use proc_macro2::{Ident, TokenStream};

/// Something that is made once for all runs.
pub(super) struct Field {
    pub name: Ident,
    pub r#type: TokenStream,
    /// The expression that makes it.
    pub new: TokenStream,
}
