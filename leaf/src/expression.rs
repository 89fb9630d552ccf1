//! Expressions: pointwise kernels that are data, for programs that are executed without being compiled.

use crate::Element;
use polyshard_program::{Comparison, Function};
use smallvec::{SmallVec, smallvec};

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
    /// The greater of two; a NaN, if one of them is.
    Max(Box<Expression<T>>, Box<Expression<T>>),
    /// The smaller of two; a NaN, if one of them is.
    Min(Box<Expression<T>>, Box<Expression<T>>),
    /// A float to the power of a float.
    Pow(Box<Expression<T>>, Box<Expression<T>>),
    /// A function of one value.
    Call(Function, Box<Expression<T>>),
    /// One of two values: the left and right side of the comparison, then the value if it holds and the one if not.
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
            Self::Pow(a, b) => value(a).power(value(b)),
            Self::Call(function, a) => value(a).call(*function),
            Self::If(comparison, parts) => {
                let [left, right, then, otherwise] = &**parts;
                if comparison.holds(value(left), value(right)) { value(then) } else { value(otherwise) }
            }
        }
    }

    /// Its subexpressions, left to right.
    pub(super) fn parts(&self) -> SmallVec<[&Self; 4]> {
        match self {
            Self::Operand(_) | Self::Const(_) => SmallVec::new(),
            Self::Neg(a) | Self::Call(_, a) => smallvec![&**a],
            Self::Add(a, b)
            | Self::Sub(a, b)
            | Self::Mul(a, b)
            | Self::Div(a, b)
            | Self::Max(a, b)
            | Self::Min(a, b)
            | Self::Pow(a, b) => smallvec![&**a, &**b],
            Self::If(_, parts) => parts.iter().collect(),
        }
    }

    /// Whether it computes a function that takes longer than reading memory.
    pub(super) fn computes_long(&self) -> bool {
        use Function::{Abs, Floor, Sign, Sqrt};
        match self {
            Self::Pow(..) => true,
            Self::Call(function, _) if !matches!(function, Sqrt | Floor | Abs | Sign) => true,
            _ => self.parts().into_iter().any(Self::computes_long),
        }
    }

    /// Whether an integer may be divided by 0, so that a value that is not chosen must not be computed.
    pub(super) fn may_fail(&self) -> bool {
        let is_number = |value: &Self| matches!(value, Self::Const(value) if *value != T::ZERO);
        let divides = matches!(self, Self::Div(_, by) if !T::DTYPE.is_float() && !is_number(by));
        divides || self.parts().into_iter().any(Self::may_fail)
    }
}
