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
    // An operand on the left is read where it is; anything else is evaluated into `out` first.
    let left = match left {
        Expression::Operand(i) => Some(&operands.get(*i)[..out.len()]),
        _ => {
            left.row(operands, out);
            None
        }
    };
    match right {
        Expression::Operand(i) => apply(left, operands.get(*i).iter().copied(), out, op),
        Expression::Const(value) => apply(left, std::iter::repeat(*value), out, op),
        _ => {
            let mut row = [T::ZERO; CHUNK];
            let row = &mut row[..out.len()];
            right.row(operands, row);
            apply(left, row.iter().copied(), out, op);
        }
    }
}

/// Writes `left op right` to `out`, which has the left side if there is no row of it.
fn apply<T: Element>(left: Option<&[T]>, right: impl Iterator<Item = T>, out: &mut [T], op: impl Fn(T, T) -> T) {
    match left {
        Some(left) => out.iter_mut().zip(left).zip(right).for_each(|((out, &left), right)| *out = op(left, right)),
        None => out.iter_mut().zip(right).for_each(|(out, right)| *out = op(*out, right)),
    }
}
