//! Expressions: pointwise kernels that are data, for programs that are executed without being compiled.

use crate::Element;
use polyshard_program::Comparison;

/// A function of the operands at one point, as a tree.
///
/// Evaluated a row at a time, one or a few nodes in a pass, so the tree is walked once per row.
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

    /// Whether a function is computed by a call per point.
    pub(super) fn calls(&self) -> bool {
        match self {
            Self::Operand(_) | Self::Const(_) => false,
            Self::Exp(_) | Self::Log(_) | Self::Tanh(_) => true,
            Self::Neg(a) | Self::Abs(a) | Self::Sqrt(a) => a.calls(),
            Self::Add(a, b)
            | Self::Sub(a, b)
            | Self::Mul(a, b)
            | Self::Div(a, b)
            | Self::Max(a, b)
            | Self::Min(a, b) => a.calls() || b.calls(),
            Self::If(_, parts) => parts.iter().any(Self::calls),
        }
    }

    /// Whether an integer may be divided by 0, so that a value which is not chosen must not be computed.
    pub(super) fn may_fail(&self) -> bool {
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
