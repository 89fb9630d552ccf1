//! Expressions: pointwise kernels that are data, for programs that are executed without being compiled.

use super::pointwise::CHUNK;
use super::{Pointwise, Rows};
use crate::Element;

/// A function of the operands at one point, as a tree.
///
/// Evaluated a row at a time, node by node, so the tree is walked once per 256 points.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression<T> {
    /// The element of an operand, by its number.
    Operand(usize),
    /// A constant.
    Const(T),
    /// A negation.
    Neg(Box<Expression<T>>),
    /// A sum.
    Add(Box<Expression<T>>, Box<Expression<T>>),
    /// A difference.
    Sub(Box<Expression<T>>, Box<Expression<T>>),
    /// A product.
    Mul(Box<Expression<T>>, Box<Expression<T>>),
    /// A quotient; of integers truncated, and a panic if the divisor is 0.
    Div(Box<Expression<T>>, Box<Expression<T>>),
}

impl<T: Element> Pointwise<T> for Expression<T> {
    fn row(&self, operands: &Rows<'_, T>, out: &mut [T]) {
        match self {
            Self::Operand(i) => out.copy_from_slice(&operands.get(*i)[..out.len()]),
            Self::Const(value) => out.fill(*value),
            Self::Neg(inner) => {
                inner.row(operands, out);
                out.iter_mut().for_each(|value| *value = value.negated());
            }
            Self::Add(left, right) => binary(left, right, operands, out, T::plus),
            Self::Sub(left, right) => binary(left, right, operands, out, T::minus),
            Self::Mul(left, right) => binary(left, right, operands, out, T::times),
            Self::Div(left, right) => binary(left, right, operands, out, T::over),
        }
    }
}

fn binary<T: Element>(
    left: &Expression<T>,
    right: &Expression<T>,
    operands: &Rows<'_, T>,
    out: &mut [T],
    op: impl Fn(T, T) -> T,
) {
    left.row(operands, out);
    let apply = |out: &mut [T], right: &[T]| {
        out.iter_mut().zip(right).for_each(|(left, &right)| *left = op(*left, right));
    };
    match right {
        Expression::Operand(i) => apply(out, operands.get(*i)),
        Expression::Const(right) => out.iter_mut().for_each(|left| *left = op(*left, *right)),
        _ => {
            let mut row = [T::ZERO; CHUNK];
            let row = &mut row[..out.len()];
            right.row(operands, row);
            apply(out, row);
        }
    }
}
