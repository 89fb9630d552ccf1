//! A kernel after all checks: every name is resolved, and no mistake is left that the macro can see.
//!
//! ```text
//! fn f(A: [T; n, 8]) -> B: [T; n] { B[i] += alpha * A[(i + 1) % n, j] }
//!
//! target     B[i]
//! value      alpha * A[(i + 1) % n, j]
//! element    T, a type of the surrounding code
//! scalars    alpha
//! moduli     n
//! ```
//!
//! Extents, bounds of ranges and moduli are still expressions: the program around the macro may know them. `target` and `value` use the
//! names of the analysis, so expanding a kernel needs no look-up.

use crate::syntax::Tensor;
use polyshard_layout::Name;
use polyshard_program::{Access, Assign, DType, Value};
use proc_macro2::TokenStream;
use syn::{Attribute, Expr, Ident, Type, Visibility};

/// A kernel without mistakes that the macro can see.
pub struct Checked {
    /// Its documentation.
    pub docs: Vec<Attribute>,
    /// Its visibility.
    pub vis: Visibility,
    /// Its name.
    pub name: Ident,
    /// The element type of all tensors.
    pub element: Element,
    /// The tensors that it reads.
    pub inputs: Vec<Tensor>,
    /// The tensor that it writes.
    pub output: Tensor,
    /// The stated ranges.
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
    /// The type; `None` if the surrounding code decides it by a name, such as a type parameter.
    pub known: Option<DType>,
    /// The type as written for the first tensor.
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
