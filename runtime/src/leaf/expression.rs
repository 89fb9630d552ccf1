//! Expressions: pointwise kernels that are data, for programs that are executed without being compiled.

use super::rows::CHUNK;
use super::{Pointwise, Rows, vector};
use crate::Element;
use polyshard_program::Comparison;

/// A function of the operands at one point, as a tree.
///
/// Evaluated a row at a time, node by node, so the tree is walked once per 512 points.
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
    /// The greater of two; a NaN gives way to a number.
    Max(Box<Expression<T>>, Box<Expression<T>>),
    /// The smaller of two; a NaN gives way to a number.
    Min(Box<Expression<T>>, Box<Expression<T>>),
    /// An absolute value.
    Abs(Box<Expression<T>>),
    /// e to the power of a float.
    Exp(Box<Expression<T>>),
    /// The natural logarithm of a float.
    Log(Box<Expression<T>>),
    /// The square root of a float.
    Sqrt(Box<Expression<T>>),
    /// The hyperbolic tangent of a float.
    Tanh(Box<Expression<T>>),
    /// One of two values: what is compared, left and right, then the value if that holds and the one if not.
    If(Comparison, Box<[Expression<T>; 4]>),
}

impl<T: Element> Expression<T> {
    /// Returns the value at one point, given the operands' elements there.
    ///
    /// # Panics
    /// If integers are divided by 0, or there is no such operand.
    pub fn at(&self, operand: &impl Fn(usize) -> T) -> T {
        let value = |expression: &Self| expression.at(operand);
        match self {
            Self::Operand(i) => operand(*i),
            Self::Const(value) => *value,
            Self::Neg(a) => value(a).negate(),
            Self::Add(a, b) => value(a).add(value(b)),
            Self::Sub(a, b) => value(a).subtract(value(b)),
            Self::Mul(a, b) => value(a).multiply(value(b)),
            Self::Div(a, b) => value(a).divide(value(b)),
            Self::Max(a, b) => value(a).maximum(value(b)),
            Self::Min(a, b) => value(a).minimum(value(b)),
            Self::Abs(a) => value(a).absolute(),
            Self::Exp(a) => value(a).exponential(),
            Self::Log(a) => value(a).logarithm(),
            Self::Sqrt(a) => value(a).square_root(),
            Self::Tanh(a) => value(a).hyperbolic_tangent(),
            Self::If(comparison, parts) => {
                let [left, right, then, otherwise] = &**parts;
                if comparison.holds(value(left), value(right)) { value(then) } else { value(otherwise) }
            }
        }
    }

    /// Whether an integer may be divided by 0, so that a value which is not chosen must not be computed.
    fn may_fail(&self) -> bool {
        match self {
            Self::Operand(_) | Self::Const(_) => false,
            Self::Div(a, b) => {
                let number = matches!(**b, Self::Const(value) if value != T::ZERO);
                let integers = !T::DTYPE.is_float();
                (integers && !number) || a.may_fail() || b.may_fail()
            }
            Self::Add(a, b) | Self::Sub(a, b) | Self::Mul(a, b) | Self::Max(a, b) | Self::Min(a, b) => {
                a.may_fail() || b.may_fail()
            }
            Self::Neg(a) | Self::Abs(a) | Self::Exp(a) | Self::Log(a) | Self::Sqrt(a) | Self::Tanh(a) => a.may_fail(),
            Self::If(_, parts) => parts.iter().any(Self::may_fail),
        }
    }
}

impl<T: Element> Pointwise<T> for Expression<T> {
    fn row(&self, operands: &Rows<'_, T>, out: &mut [T]) {
        match self {
            Self::Operand(i) => out.copy_from_slice(&operands.get(*i)[..out.len()]),
            Self::Const(value) => out.fill(*value),
            Self::Neg(inner) => unary(inner, operands, out, T::negate),
            Self::Abs(inner) => unary(inner, operands, out, T::absolute),
            Self::Exp(inner) => unary(inner, operands, out, T::exponential),
            Self::Log(inner) => unary(inner, operands, out, T::logarithm),
            Self::Sqrt(inner) => unary(inner, operands, out, T::square_root),
            Self::Tanh(inner) => unary(inner, operands, out, T::hyperbolic_tangent),
            Self::Add(left, right) => binary(left, right, operands, out, T::add),
            Self::Sub(left, right) => binary(left, right, operands, out, T::subtract),
            Self::Mul(left, right) => binary(left, right, operands, out, T::multiply),
            Self::Div(left, right) => binary(left, right, operands, out, T::divide),
            Self::Max(left, right) => binary(left, right, operands, out, T::maximum),
            Self::Min(left, right) => binary(left, right, operands, out, T::minimum),
            Self::If(comparison, parts) => choose(*comparison, parts, operands, out),
        }
    }

    fn values<'a>(&self, operands: &Rows<'a, T>, out: &'a mut [T]) -> &'a [T] {
        if let Self::Operand(i) = self {
            return operands.get(*i);
        }
        self.row(operands, out);
        out
    }
}

fn unary<T: Element>(inner: &Expression<T>, operands: &Rows<'_, T>, out: &mut [T], op: impl Fn(T) -> T) {
    inner.row(operands, out);
    vector::map(out, op);
}

/// Computes both values for all points and picks, which vectorises, unless a value must not be computed.
fn choose<T: Element>(comparison: Comparison, parts: &[Expression<T>; 4], operands: &Rows<'_, T>, out: &mut [T]) {
    let [left, right, then, otherwise] = parts;
    let mut row = [T::ZERO; CHUNK];
    let row = &mut row[..out.len()];
    left.row(operands, out);
    right.row(operands, row);
    let mut held = [false; CHUNK];
    let held = &mut held[..out.len()];
    // One loop per comparison, each of them simple enough to vectorise.
    match comparison {
        Comparison::Less => compare(held, out, row, |a, b| a < b),
        Comparison::LessEqual => compare(held, out, row, |a, b| a <= b),
        Comparison::Greater => compare(held, out, row, |a, b| a > b),
        Comparison::GreaterEqual => compare(held, out, row, |a, b| a >= b),
        Comparison::Equal => compare(held, out, row, |a, b| a == b),
        Comparison::NotEqual => compare(held, out, row, |a, b| a != b),
    }
    if then.may_fail() || otherwise.may_fail() {
        for (i, (out, &held)) in out.iter_mut().zip(&*held).enumerate() {
            let chosen = if held { then } else { otherwise };
            *out = chosen.at(&|operand| operands.get(operand)[i]);
        }
        return;
    }
    then.row(operands, out);
    otherwise.row(operands, row);
    for ((out, &otherwise), &held) in out.iter_mut().zip(&*row).zip(&*held) {
        *out = if held { *out } else { otherwise };
    }
}

fn compare<T: Element>(held: &mut [bool], left: &[T], right: &[T], holds: impl Fn(T, T) -> bool) {
    held.iter_mut().zip(left).zip(right).for_each(|((held, &left), &right)| *held = holds(left, right));
}

fn binary<T: Element>(
    left: &Expression<T>,
    right: &Expression<T>,
    operands: &Rows<'_, T>,
    out: &mut [T],
    op: impl Fn(T, T) -> T,
) {
    // An operand is read where it is; anything else is evaluated first.
    if let Expression::Const(value) = *right {
        left.row(operands, out);
        return vector::map(out, |left| op(left, value));
    }
    if let Expression::Const(value) = *left {
        right.row(operands, out);
        return vector::map(out, |right| op(value, right));
    }
    let mut row = [T::ZERO; CHUNK];
    let row = &mut row[..out.len()];
    let right = match right {
        Expression::Operand(i) => operands.get(*i),
        _ => {
            right.row(operands, row);
            row
        }
    };
    match left {
        Expression::Operand(i) => vector::zip_to(out, operands.get(*i), right, op),
        _ => {
            left.row(operands, out);
            vector::zip(out, right, op);
        }
    }
}
