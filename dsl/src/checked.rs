//! A kernel as the checks leave it: every name resolved, nothing that the macro can see is wrong.
//!
//! ```text
//! fn f(A: [T; n, 8]) -> B: [T; n] { B[i] += alpha * A[(i + 1) % n, j] }
//!
//! target     B[i]
//! value      alpha * A[(i + 1) % n, j]
//! element    T, a type of the surroundings
//! scalars    alpha
//! moduli     n
//! ```
//!
//! Extents, bounds of ranges and moduli are still expressions: a program around the macro may know them. Names in `target` and `value` are
//! those of the analysis, so what expands a kernel looks nothing up.

use crate::syntax::Tensor;
use polyshard_layout::Name;
use polyshard_program::{Access, Assign, DType, Value};
use proc_macro2::TokenStream;
use syn::{Attribute, Expr, Ident, Type, Visibility};

/// A kernel without mistakes that the macro can see.
pub struct Checked {
    /// Its documentation.
    pub docs: Vec<Attribute>,
    /// Who may see it.
    pub vis: Visibility,
    /// Its name.
    pub name: Ident,
    /// The element type of all tensors.
    pub element: Element,
    /// The tensors that it reads.
    pub inputs: Vec<Tensor>,
    /// The tensor that it writes.
    pub output: Tensor,
    /// The ranges that are stated.
    pub ranges: Vec<Bounds>,
    /// Captured scalars.
    pub scalars: Vec<Ident>,
    /// Captured moduli, with their text.
    pub moduli: Vec<(Name, Expr)>,
    /// Where the statement writes.
    pub target: Access,
    /// How it writes.
    pub assign: Assign,
    /// What it writes.
    pub value: Value,
    /// The statement as written, for errors on it.
    pub statement: TokenStream,
}

/// The element type of a kernel.
pub struct Element {
    /// The type, `None` if it is a name from the surroundings, such as a type parameter: they decide.
    pub known: Option<DType>,
    /// The type as it was written, for the first tensor.
    pub written: Type,
}

/// The range of an index, `start..end`.
pub struct Bounds {
    /// The index.
    pub var: Ident,
    /// The first value.
    pub start: Expr,
    /// The value after the last.
    pub end: Expr,
}
