//! The kernel's right-hand side as something to evaluate.

use crate::Element;
use crate::leaf::Expression;
use polyshard_layout::Name;
use polyshard_program::{Function, Kernel, Number, Value};

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
        Value::Scalar(name) => Expression::Const(scalar(*name, kernel)),
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
        Value::Max(a, b) => {
            let (a, b) = both(a, b);
            Expression::Max(a, b)
        }
        Value::Min(a, b) => {
            let (a, b) = both(a, b);
            Expression::Min(a, b)
        }
        Value::Call(function, a) => {
            let a = Box::new(expression(a, kernel, next));
            match function {
                Function::Exp => Expression::Exp(a),
                Function::Log => Expression::Log(a),
                Function::Sqrt => Expression::Sqrt(a),
                Function::Tanh => Expression::Tanh(a),
                Function::Abs => Expression::Abs(a),
            }
        }
        Value::If(choice) => {
            let parts = [&choice.left, &choice.right, &choice.then, &choice.otherwise];
            Expression::If(choice.compare, Box::new(parts.map(|part| expression(part, kernel, next))))
        }
    }
}

/// The value of a scalar of the kernel.
pub(super) fn scalar<T: Element>(name: Name, kernel: &Kernel) -> T {
    let scalar = kernel.scalars().iter().find(|scalar| scalar.0 == name);
    element(scalar.expect("a checked kernel declares its scalars; this is a bug of polyshard").1)
}

/// The value of an expression without operands.
pub(super) fn constant<T: Element>(expression: &Expression<T>) -> T {
    expression.at(&|_| unreachable!("a factor reads no tensor; this is a bug of polyshard"))
}

fn element<T: Element>(number: Number) -> T {
    let cast = match number {
        Number::Int(value) => T::from(value),
        Number::Float(value) => T::from(value),
    };
    cast.unwrap_or_else(|| panic!("the kernel's number {number} is no {}; this is a bug of polyshard", T::DTYPE.name()))
}
