//! The kernel's right-hand side as something to evaluate.

use crate::Element;
use crate::leaf::Expression;
use polyshard_layout::Name;
use polyshard_program::{Kernel, Number, Value};

/// The kernel's value as an expression over operands: its accesses, numbered left to right, then the indices in it.
pub(super) fn of_kernel<T: Element>(kernel: &Kernel) -> Expression<T> {
    expression(kernel.value(), kernel, &mut [0, kernel.value().accesses().len()])
}

/// A value without accesses and indices.
pub(super) fn constant<T: Element>(value: &Value, kernel: &Kernel) -> T {
    let value: Expression<T> = expression(value, kernel, &mut [0; 2]);
    value.at(&|_| unreachable!("a factor reads no tensor; this is a bug of polyshard"))
}

/// The value as an expression; `next` are the numbers of the next access and of the next index.
fn expression<T: Element>(value: &Value, kernel: &Kernel, next: &mut [usize; 2]) -> Expression<T> {
    let mut both = |a: &Value, b: &Value| {
        let a = expression(a, kernel, next);
        (Box::new(a), Box::new(expression(b, kernel, next)))
    };
    match value {
        Value::Access(_) | Value::Index(_) => {
            let next = &mut next[usize::from(matches!(value, Value::Index(_)))];
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
        Value::Pow(a, b) => {
            let (a, b) = both(a, b);
            Expression::Pow(a, b)
        }
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
    element(scalar.expect("a checked kernel declares its scalars; this is a bug of polyshard").1)
}

fn element<T: Element>(number: Number) -> T {
    let cast = match number {
        Number::Int(value) => T::from(value),
        Number::Float(value) => T::from(value),
    };
    cast.unwrap_or_else(|| panic!("the kernel's number {number} is no {}; this is a bug of polyshard", T::DTYPE.name()))
}
