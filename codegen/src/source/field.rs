//! The fields of an emitted `Prepared`: groups, tiles, plans of moves, and everything else that is the same in all
//! runs.
//!
//! A field is written three times, in the struct, in `new` and in the pattern that takes `self` apart:
//!
//! ```text
//! a_tile: Tile<f64>,   let a_tile = Tile::new("A", 63)?;   let Self { a_tile, .. } = self;
//! ```

use proc_macro2::{Ident, TokenStream};

/// A field that is made once for all runs.
pub(super) struct Field {
    pub name: Ident,
    pub r#type: TokenStream,
    /// The expression that makes it, which returns from `new` by `?` if it fails. It may use `world`, and in a module
    /// of one kernel also `grid` and the fields before it.
    pub new: TokenStream,
}
