//! The sequential meaning of a kernel: every statement instance in turn, on whole arrays.
//!
//! Shares nothing with the back ends but the kernel, so that it can judge them. It is slow.

use ndarray::{ArrayD, IxDyn};
use polyshard_polyhedral::{Access, Assign, Comparison, Function, IndexVar, Kernel, Number, Value};
use polyshard_runtime::{Element, Error, Result};

/// Evaluates `kernel` on whole inputs, given in its order; `into` is what the output holds before.
///
/// Without `into` the output starts from the identity of the kernel's operation, zeros for `=` and `+=`; with it, `=`
/// overwrites the elements at the statement's index and no others. One statement instance at a time, so the time is
/// the product of all extents.
///
/// # Errors
/// If an array has another shape than its tensor, or there are not as many as the kernel takes.
pub fn reference<T: Element>(kernel: &Kernel, inputs: &[&ArrayD<T>], into: Option<ArrayD<T>>) -> Result<ArrayD<T>> {
    if inputs.len() != kernel.inputs().len() {
        let (name, wanted) = (kernel.name(), kernel.inputs().len());
        return Err(Error::Usage(format!("`{name}` takes {wanted} inputs, but {} are given", inputs.len())));
    }
    let start = match kernel.assign() {
        Assign::Set | Assign::Add => T::ZERO,
        Assign::Mul => T::ONE,
        Assign::Max => T::LEAST,
        Assign::Min => T::GREATEST,
    };
    let shape = &kernel.output().shape;
    let mut output = match into {
        Some(into) => into,
        None => ArrayD::from_elem(IxDyn(shape), start),
    };
    let arrays = inputs.iter().copied().chain([&output]);
    for (array, tensor) in arrays.zip(kernel.tensors()) {
        if array.shape() != &tensor.shape[..] {
            let (name, wanted, given) = (tensor.name, &tensor.shape, array.shape());
            return Err(Error::Usage(format!("`{name}` has shape {wanted:?}, but the array given has {given:?}")));
        }
    }
    if kernel.assign() == Assign::Set {
        // Contracted indices do not say where is written: with no value of theirs, the sum is empty.
        let target = |var: &IndexVar| kernel.target().index.iter().any(|index| index.coefficient(var.name) != 0);
        let extents = kernel.vars().iter().map(|var| if target(var) { var.extent } else { 1 });
        for at in points(extents.collect()) {
            if let Some(element) = output.get_mut(&index(kernel.target(), kernel, &at)[..]) {
                *element = start;
            }
        }
    }
    for mut at in points(kernel.vars().iter().map(|var| var.extent).collect()) {
        // The statement as it was written, whose indices run over their own ranges.
        for (value, var) in at.iter_mut().zip(kernel.vars()) {
            *value += var.start;
        }
        let value = evaluate(kernel.written_value(), kernel, inputs, &at);
        let element = &mut output[&index(kernel.written_target(), kernel, &at)[..]];
        *element = match kernel.assign() {
            Assign::Set | Assign::Add => element.plus(value),
            Assign::Mul => element.times(value),
            Assign::Max => element.greater(value),
            Assign::Min => element.smaller(value),
        };
    }
    Ok(output)
}

/// The points of a box, the last dimension fastest.
fn points(extents: Vec<usize>) -> impl Iterator<Item = Vec<i64>> {
    (0..extents.iter().product()).map(move |point: usize| {
        let mut rest = point;
        let mut at = vec![0; extents.len()];
        for (value, extent) in at.iter_mut().zip(&extents).rev() {
            *value = (rest % extent) as i64;
            rest /= extent;
        }
        at
    })
}

fn index(access: &Access, kernel: &Kernel, at: &[i64]) -> Vec<usize> {
    let value = |name| {
        let var = kernel.vars().iter().position(|var| var.name == name);
        at[var.expect("a checked kernel binds all its indices; this is a bug of polyshard")]
    };
    let dims = access.index.iter().map(|index| {
        // A periodic index may be large before its remainder is taken.
        let terms = index.terms.iter().map(|&(name, factor)| i128::from(factor) * i128::from(value(name)));
        let sum = terms.sum::<i128>() + i128::from(index.constant);
        let element = index.period().map_or(sum, |period| sum.rem_euclid(i128::from(period)));
        usize::try_from(element).expect("a checked kernel stays inside its tensors; this is a bug of polyshard")
    });
    dims.collect()
}

fn evaluate<T: Element>(value: &Value, kernel: &Kernel, inputs: &[&ArrayD<T>], at: &[i64]) -> T {
    let both = |a: &Value, b: &Value| (evaluate(a, kernel, inputs, at), evaluate(b, kernel, inputs, at));
    match value {
        Value::Access(access) => {
            let tensor = kernel.inputs().iter().position(|tensor| tensor.name == access.tensor);
            let array = inputs[tensor.expect("a checked kernel reads its inputs only; this is a bug of polyshard")];
            array[&index(access, kernel, at)[..]]
        }
        Value::Literal(number) => element(*number),
        Value::Scalar(name) => {
            let scalar = kernel.scalars().iter().find(|scalar| scalar.0 == *name);
            element(scalar.expect("a checked kernel declares its scalars; this is a bug of polyshard").1)
        }
        Value::Neg(a) => evaluate(a, kernel, inputs, at).negated(),
        Value::Add(a, b) => {
            let (a, b) = both(a, b);
            a.plus(b)
        }
        Value::Sub(a, b) => {
            let (a, b) = both(a, b);
            a.minus(b)
        }
        Value::Mul(a, b) => {
            let (a, b) = both(a, b);
            a.times(b)
        }
        Value::Div(a, b) => {
            let (a, b) = both(a, b);
            a.over(b)
        }
        Value::Max(a, b) => {
            let (a, b) = both(a, b);
            a.greater(b)
        }
        Value::Min(a, b) => {
            let (a, b) = both(a, b);
            a.smaller(b)
        }
        Value::Call(function, a) => {
            let a = evaluate(a, kernel, inputs, at);
            match function {
                Function::Exp => a.exponential(),
                Function::Log => a.logarithm(),
                Function::Sqrt => a.square_root(),
                Function::Tanh => a.hyperbolic_tangent(),
                Function::Abs => a.magnitude(),
            }
        }
        Value::If(choice) => {
            let (left, right) = both(&choice.left, &choice.right);
            let holds = match choice.compare {
                Comparison::Less => left < right,
                Comparison::LessEqual => left <= right,
                Comparison::Greater => left > right,
                Comparison::GreaterEqual => left >= right,
                Comparison::Equal => left == right,
                Comparison::NotEqual => left != right,
            };
            evaluate(if holds { &choice.then } else { &choice.otherwise }, kernel, inputs, at)
        }
    }
}

fn element<T: Element>(number: Number) -> T {
    let cast = match number {
        Number::Int(value) => T::from(value),
        Number::Float(value) => T::from(value),
    };
    cast.unwrap_or_else(|| panic!("the kernel's number {number} is no {}; this is a bug of polyshard", T::NAME))
}
