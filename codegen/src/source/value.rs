//! The kernel's right-hand side as a Rust expression over elements.
//!
//! ```text
//! alpha * A[m, k] + n        f64   ((alpha * v0) + n0)
//! B[m] / 2 - max(A[m], 0)    i32   Element::subtract(Element::divide(v0, 2i32), Element::maximum(v1, 0i32))
//! ```
//!
//! Floats use Rust's operators, which follow IEEE as the executor does. Everything else calls the functions that the
//! executor calls: integers wrap, and panic with a message of the runtime if divided by 0; `exp` is the runtime's own.

use super::names::Names;
use polyshard_program::{Comparison, DType, Function, NestView, Number, Value};
use proc_macro2::Literal;
use syn::parse_quote;

/// Prints values of one program; accesses are numbered left to right, `v0, v1, ..`, and so are indices, `n0, n1, ..`.
pub(super) struct Values<'a> {
    pub nest: &'a NestView<'a>,
    pub names: &'a Names,
}

impl Values<'_> {
    /// The kernel's value.
    pub(super) fn of_kernel(&self) -> syn::Expr {
        self.expr(self.nest.kernel.value(), &mut [0; 2])
    }

    /// A value without accesses and indices.
    pub(super) fn constant(&self, value: &Value) -> syn::Expr {
        self.expr(value, &mut [0; 2])
    }

    /// The value; `next` are the numbers of the next access and of the next index.
    ///
    /// Parts are visited in the order of [`Value::accesses`] and [`Value::indices`], which is the order of the
    /// closure's arguments. Each operator is in parentheses; [`bare`] removes the outermost.
    fn expr(&self, value: &Value, next: &mut [usize; 2]) -> syn::Expr {
        let float = self.nest.kernel.dtype().is_float();
        match value {
            Value::Access(_) => {
                next[0] += 1;
                let ident = &self.names.elements[next[0] - 1];
                parse_quote!(#ident)
            }
            Value::Index(_) => {
                next[1] += 1;
                let ident = &self.names.numbers[next[1] - 1];
                parse_quote!(#ident)
            }
            Value::Literal(number) => self.number(*number),
            Value::Scalar(name) => {
                let ident = self.names.scalar(self.nest, *name);
                parse_quote!(#ident)
            }
            Value::Neg(inner) => {
                let inner = self.expr(inner, next);
                if float { parse_quote!((-#inner)) } else { parse_quote!(Element::negate(#inner)) }
            }
            Value::Add(a, b) | Value::Sub(a, b) | Value::Mul(a, b) | Value::Div(a, b) => {
                let (a, b) = (self.expr(a, next), self.expr(b, next));
                // Integers wrap, as in the executor.
                match (value, float) {
                    (Value::Add(..), true) => parse_quote!((#a + #b)),
                    (Value::Sub(..), true) => parse_quote!((#a - #b)),
                    (Value::Mul(..), true) => parse_quote!((#a * #b)),
                    (_, true) => parse_quote!((#a / #b)),
                    (Value::Add(..), false) => parse_quote!(Element::add(#a, #b)),
                    (Value::Sub(..), false) => parse_quote!(Element::subtract(#a, #b)),
                    (Value::Mul(..), false) => parse_quote!(Element::multiply(#a, #b)),
                    (_, false) => parse_quote!(Element::divide(#a, #b)),
                }
            }
            Value::Max(a, b) | Value::Min(a, b) | Value::Pow(a, b) => {
                let (a, b) = (bare(self.expr(a, next)), bare(self.expr(b, next)));
                match value {
                    Value::Max(..) => parse_quote!(Element::maximum(#a, #b)),
                    Value::Min(..) => parse_quote!(Element::minimum(#a, #b)),
                    _ => parse_quote!(Element::power(#a, #b)),
                }
            }
            Value::Call(function, inner) => {
                let inner = bare(self.expr(inner, next));
                match function {
                    Function::Exp => parse_quote!(Element::exponential(#inner)),
                    Function::Log => parse_quote!(Element::logarithm(#inner)),
                    Function::Sqrt => parse_quote!(Element::square_root(#inner)),
                    Function::Tanh => parse_quote!(Element::hyperbolic_tangent(#inner)),
                    Function::Sin => parse_quote!(Element::sine(#inner)),
                    Function::Cos => parse_quote!(Element::cosine(#inner)),
                    Function::Floor => parse_quote!(Element::floored(#inner)),
                    Function::Abs => parse_quote!(Element::absolute(#inner)),
                    Function::Sign => parse_quote!(Element::sign(#inner)),
                }
            }
            Value::If(choice) => {
                let parts = [&choice.left, &choice.right, &choice.then, &choice.otherwise];
                let [left, right, then, otherwise] = parts.map(|part| bare(self.expr(part, next)));
                // Without parentheses, a condition may not start with a block.
                let [left, right] = [left, right].map(|side| match side {
                    syn::Expr::If(_) => parse_quote!((#side)),
                    side => side,
                });
                let compare: syn::BinOp = match choice.compare {
                    Comparison::Less => parse_quote!(<),
                    Comparison::LessEqual => parse_quote!(<=),
                    Comparison::Greater => parse_quote!(>),
                    Comparison::GreaterEqual => parse_quote!(>=),
                    Comparison::Equal => parse_quote!(==),
                    Comparison::NotEqual => parse_quote!(!=),
                };
                parse_quote!((if #left #compare #right { #then } else { #otherwise }))
            }
        }
    }

    /// A literal of the element type, with its suffix, so that nothing is inferred: `2` in a kernel of `f32` is `2f32`.
    fn number(&self, number: Number) -> syn::Expr {
        let literal = match (self.nest.kernel.dtype(), number) {
            // Not through `f64`, which would round twice.
            (DType::F32, Number::Int(value)) => Literal::f32_suffixed(value as f32),
            (DType::F32, Number::Float(value)) => Literal::f32_suffixed(value as f32),
            (DType::F64, number) => Literal::f64_suffixed(number.as_f64()),
            (DType::I32, Number::Int(value)) => Literal::i32_suffixed(value as i32),
            (DType::I64, Number::Int(value)) => Literal::i64_suffixed(value),
            (dtype, number) => {
                unreachable!("a checked kernel of {dtype} has no {number:?}; this is a bug in polyshard")
            }
        };
        let literal: syn::Lit = parse_quote!(#literal);
        parse_quote!(#literal)
    }
}

/// The expression without its outermost parentheses.
pub(super) fn bare(expr: syn::Expr) -> syn::Expr {
    match expr {
        syn::Expr::Paren(paren) => *paren.expr,
        other => other,
    }
}
