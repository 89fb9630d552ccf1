//! The kernel's right-hand side as something to evaluate.

use polyshard_polyhedral::{Kernel, Number, Value};
use polyshard_runtime::Element;
use polyshard_runtime::leaf::Expression;

/// The value as an expression over operands, numbered left to right from `next` on.
pub(super) fn expression<T: Element>(value: &Value, kernel: &Kernel, next: &mut usize) -> Expression<T> {
    let mut both = |a: &Value, b: &Value| {
        let a = expression(a, kernel, next);
        (Box::new(a), Box::new(expression(b, kernel, next)))
    };
    match value {
        Value::Access(_) => {
            *next += 1;
            Expression::Operand(*next - 1)
        }
        Value::Literal(number) => Expression::Const(element(*number)),
        Value::Scalar(name) => {
            let scalar = kernel.scalars().iter().find(|scalar| scalar.0 == *name);
            Expression::Const(element(
                scalar.expect("a checked kernel declares its scalars; this is a bug of polyshard").1,
            ))
        }
        Value::Neg(inner) => Expression::Neg(Box::new(expression(inner, kernel, next))),
        Value::Add(a, b) => {
            let (a, b) = both(a, b);
            Expression::Add(a, b)
        }
        Value::Sub(a, b) => {
            let (a, b) = both(a, b);
            Expression::Sub(a, b)
        }
        Value::Mul(a, b) => {
            let (a, b) = both(a, b);
            Expression::Mul(a, b)
        }
        Value::Div(a, b) => {
            let (a, b) = both(a, b);
            Expression::Div(a, b)
        }
    }
}

/// The value of an expression without operands.
pub(super) fn constant<T: Element>(expression: &Expression<T>) -> T {
    match expression {
        Expression::Operand(_) => unreachable!("a factor reads no tensor; this is a bug of polyshard"),
        Expression::Const(value) => *value,
        Expression::Neg(a) => constant(a).negated(),
        Expression::Add(a, b) => constant(a).plus(constant(b)),
        Expression::Sub(a, b) => constant(a).minus(constant(b)),
        Expression::Mul(a, b) => constant(a).times(constant(b)),
        Expression::Div(a, b) => constant(a).over(constant(b)),
    }
}

fn element<T: Element>(number: Number) -> T {
    let cast = match number {
        Number::Int(value) => T::from(value),
        Number::Float(value) => T::from(value),
    };
    cast.unwrap_or_else(|| panic!("the kernel's number {number} is no {}; this is a bug of polyshard", T::NAME))
}
