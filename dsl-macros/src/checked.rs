//! A kernel as the checks leave it: every name resolved, nothing that the macro can see is wrong.

use crate::syntax::Tensor;
use polyshard_layout::Name;
use polyshard_program::{Access, Assign, DType, Value};
use proc_macro2::TokenStream;
use syn::{Attribute, Expr, Ident, Type, Visibility};

/// A kernel without mistakes that the macro can see.
pub(crate) struct Checked {
    pub(crate) docs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    pub(crate) element: Element,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) output: Tensor,
    pub(crate) ranges: Vec<Bounds>,
    pub(crate) scalars: Vec<Ident>,
    /// Captured moduli, with their text.
    pub(crate) moduli: Vec<(Name, Expr)>,
    pub(crate) target: Access,
    pub(crate) assign: Assign,
    pub(crate) value: Value,
    /// The statement as written, for errors on it.
    pub(crate) statement: TokenStream,
}

/// The element type of a kernel.
pub(crate) struct Element {
    /// The type, `None` if it is a name from the surroundings, such as a type parameter: they decide.
    pub(crate) known: Option<DType>,
    /// The type as it was written, for the first tensor.
    pub(crate) written: Type,
}

/// The range of an index, `start..end`.
pub(crate) struct Bounds {
    pub(crate) var: Ident,
    pub(crate) start: Expr,
    pub(crate) end: Expr,
}
