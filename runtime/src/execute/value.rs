//! The kernel's right-hand side as an expression to evaluate.

use crate::Element;
use crate::leaf::Expression;
use polyshard_layout::Name;
use polyshard_leaf::of_number;
use polyshard_program::{Kernel, Value};

/// The kernel's value as an expression over operands: its accesses, numbered left to right, then the indices in it.
pub(super) fn of_kernel<T: Element>(kernel: &Kernel) -> Expression<T> {
    expression(kernel.value(), kernel, &mut [0, kernel.value().accesses().len()])
}

/// A value without accesses and indices.
pub(super) fn constant<T: Element>(value: &Value, kernel: &Kernel) -> T {
    let value: Expression<T> = expression(value, kernel, &mut [0; 2]);
    value.at(&|_| unreachable!("a factor reads no tensor; this is a bug in polyshard"))
}

/// A part of an expression.
type Part<T> = Box<Expression<T>>;

/// The value as an expression; `next` are the numbers of the next access and of the next index.
fn expression<T: Element>(value: &Value, kernel: &Kernel, next: &mut [usize; 2]) -> Expression<T> {
    let mut both = |make: fn(Part<T>, Part<T>) -> Expression<T>, a: &Value, b: &Value| {
        let a = Box::new(expression(a, kernel, next));
        make(a, Box::new(expression(b, kernel, next)))
    };
    match value {
        Value::Access(_) | Value::Index(_) => {
            let next = &mut next[usize::from(matches!(value, Value::Index(_)))];
            *next += 1;
            Expression::Operand(*next - 1)
        }
        Value::Literal(number) => Expression::Const(of_number(*number)),
        Value::Scalar(name) => Expression::Const(scalar(*name, kernel)),
        Value::Neg(inner) => Expression::Neg(Box::new(expression(inner, kernel, next))),
        Value::Add(a, b) => both(Expression::Add, a, b),
        Value::Sub(a, b) => both(Expression::Sub, a, b),
        Value::Mul(a, b) => both(Expression::Mul, a, b),
        Value::Div(a, b) => both(Expression::Div, a, b),
        Value::Max(a, b) => both(Expression::Max, a, b),
        Value::Min(a, b) => both(Expression::Min, a, b),
        Value::Pow(a, b) => both(Expression::Pow, a, b),
        Value::Call(function, a) => Expression::Call(*function, Box::new(expression(a, kernel, next))),
        Value::If(choice) => {
            let parts = [&choice.left, &choice.right, &choice.then, &choice.otherwise];
            Expression::If(choice.compare, Box::new(parts.map(|part| expression(part, kernel, next))))
        }
    }
}

/// The value of a scalar of the kernel.
pub(super) fn scalar<T: Element>(name: Name, kernel: &Kernel) -> T {
    let scalar = kernel.scalars().iter().find(|scalar| scalar.0 == name);
    of_number(scalar.expect("a checked kernel declares its scalars; this is a bug in polyshard").1)
}
