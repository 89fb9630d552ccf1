//! The values of a row of statement instances: those along one index, with the others fixed.

use crate::Element;
use ndarray::{ArrayD, CowArray, IxDyn};
use polyshard_leaf::of_number;
use polyshard_program::{Access, Affine, Conditional, Kernel, Value};

/// The inputs of a kernel, in row-major order.
pub(super) struct Arrays<'a, T> {
    pub(super) kernel: &'a Kernel,
    inputs: Vec<CowArray<'a, T, IxDyn>>,
}

impl<'a, T: Element> Arrays<'a, T> {
    pub(super) fn new(kernel: &'a Kernel, inputs: &[&'a ArrayD<T>]) -> Self {
        Self { kernel, inputs: inputs.iter().map(|array| array.as_standard_layout()).collect() }
    }

    pub(super) fn of(&self, access: &Access) -> (&[T], &[usize]) {
        let tensor = self.kernel.inputs().iter().position(|tensor| tensor.name == access.tensor);
        let array = &self.inputs[tensor.expect("a checked kernel reads its inputs only; this is a bug in polyshard")];
        (array.as_slice().expect("it is in row-major order"), array.shape())
    }
}

/// The offsets of the elements that the instances of a row access.
pub(super) enum Offsets {
    /// All instances access this element.
    Same(usize),
    /// The instances access consecutive elements, the first of them this one.
    Consecutive(usize),
    /// One element per instance.
    Each(Vec<usize>),
}

/// Instances along one index, at least one.
#[derive(Clone)]
pub(super) struct Row {
    /// The value of each index in the first instance.
    pub(super) at: Vec<i64>,
    /// The position of the index that grows by 1 from one instance to the next.
    pub(super) along: usize,
    /// The number of instances.
    pub(super) len: usize,
}

impl Row {
    /// Returns the value of an expression in each instance.
    pub(super) fn evaluate<T: Element>(&self, value: &Value, arrays: &Arrays<'_, T>) -> Vec<T> {
        match value {
            Value::Access(access) => {
                let (elements, shape) = arrays.of(access);
                if let Some(outside) = &access.outside {
                    return self.inside_or(self.evaluate(outside, arrays), access, arrays.kernel, (elements, shape));
                }
                match self.offsets(access, arrays.kernel, shape) {
                    Offsets::Same(offset) => vec![elements[offset]; self.len],
                    Offsets::Consecutive(offset) => elements[offset..offset + self.len].to_vec(),
                    Offsets::Each(offsets) => offsets.into_iter().map(|offset| elements[offset]).collect(),
                }
            }
            Value::Index(index) => {
                let (first, by) = (self.first(index, arrays.kernel), self.step(index, arrays.kernel));
                let number = |nth| i64::try_from(first + i128::from(by) * nth as i128).ok().and_then(T::from);
                let numbers = (0..self.len).map(number);
                let numbers = numbers.collect::<Option<Vec<_>>>();
                numbers.expect("a checked kernel's indices fit its elements; this is a bug in polyshard")
            }
            Value::Literal(number) => vec![of_number(*number); self.len],
            Value::Scalar(name) => {
                let scalar = arrays.kernel.scalars().iter().find(|scalar| scalar.0 == *name);
                let scalar = scalar.expect("a checked kernel declares its scalars; this is a bug in polyshard");
                vec![of_number(scalar.1); self.len]
            }
            // A closure per operation, so that the loops do not branch.
            Value::Neg(a) => {
                let mut values = self.evaluate(a, arrays);
                values.iter_mut().for_each(|value| *value = value.negate());
                values
            }
            Value::Add(a, b) => self.both(a, b, arrays, |a, b| a.add(b)),
            Value::Sub(a, b) => self.both(a, b, arrays, |a, b| a.subtract(b)),
            Value::Mul(a, b) => self.both(a, b, arrays, |a, b| a.multiply(b)),
            Value::Div(a, b) => self.both(a, b, arrays, |a, b| a.divide(b)),
            Value::Max(a, b) => self.both(a, b, arrays, |a, b| a.maximum(b)),
            Value::Min(a, b) => self.both(a, b, arrays, |a, b| a.minimum(b)),
            Value::Pow(a, b) => self.both(a, b, arrays, |a, b| a.power(b)),
            Value::Call(function, a) => {
                let mut values = self.evaluate(a, arrays);
                values.iter_mut().for_each(|value| *value = value.call(*function));
                values
            }
            Value::If(choice) => self.choose(choice, arrays),
        }
    }

    fn both<T: Element>(&self, a: &Value, b: &Value, arrays: &Arrays<'_, T>, by: impl Fn(T, T) -> T) -> Vec<T> {
        let (mut values, others) = (self.evaluate(a, arrays), self.evaluate(b, arrays));
        values.iter_mut().zip(&others).for_each(|(value, &other)| *value = by(*value, other));
        values
    }

    /// Evaluates one branch per instance; the other is not computed, since it may divide by 0.
    fn choose<T: Element>(&self, choice: &Conditional, arrays: &Arrays<'_, T>) -> Vec<T> {
        let (left, right) = (self.evaluate(&choice.left, arrays), self.evaluate(&choice.right, arrays));
        let chosen = left.iter().zip(&right).enumerate().map(|(nth, (left, right))| {
            let holds = choice.compare.holds(left, right);
            let mut instance = Self { len: 1, ..self.clone() };
            if let Some(index) = instance.at.get_mut(self.along) {
                *index += nth as i64;
            }
            instance.evaluate(if holds { &choice.then } else { &choice.otherwise }, arrays)[0]
        });
        chosen.collect()
    }

    /// Returns the element that each instance accesses, or its element of `values` if the access is outside.
    fn inside_or<T: Element>(
        &self,
        mut values: Vec<T>,
        access: &Access,
        kernel: &Kernel,
        (elements, shape): (&[T], &[usize]),
    ) -> Vec<T> {
        let dims = self.dims(access, kernel, shape);
        for (nth, value) in values.iter_mut().enumerate() {
            if let Some(offset) = dims.iter().map(|dim| dim.inside(nth)).sum::<Option<usize>>() {
                *value = elements[offset];
            }
        }
        values
    }

    /// The dimensions of an access along the row, the last one first.
    fn dims(&self, access: &Access, kernel: &Kernel, shape: &[usize]) -> Vec<Dim> {
        let mut stride = 1;
        let mut dims = Vec::with_capacity(shape.len());
        for (index, &extent) in access.index.iter().zip(shape).rev() {
            let by = self.step(index, kernel);
            dims.push(Dim { first: self.first(index, kernel), by, period: index.period(), extent, stride });
            stride *= extent;
        }
        dims
    }

    /// Returns the offset of the element that each instance accesses, in row-major order.
    pub(super) fn offsets(&self, access: &Access, kernel: &Kernel, shape: &[usize]) -> Offsets {
        let dims = self.dims(access, kernel, shape);
        let offset = |nth| dims.iter().map(|dim| dim.offset(nth)).sum::<usize>();
        if dims.iter().all(|dim| dim.by == 0) {
            return Offsets::Same(offset(0));
        }
        // The last instance shows whether the whole row is inside.
        let consecutive = |dim: &Dim| dim.period.is_none() && dim.by == i64::from(dim.stride == 1);
        if dims.iter().all(consecutive) && offset(self.len - 1) - offset(0) == self.len - 1 {
            return Offsets::Consecutive(offset(0));
        }
        Offsets::Each((0..self.len).map(offset).collect())
    }

    /// The step of the index from one instance to the next.
    fn step(&self, index: &Affine, kernel: &Kernel) -> i64 {
        kernel.vars().get(self.along).map_or(0, |var| index.coefficient(var.name))
    }

    /// The index in the first instance, before a remainder is taken, when it may be large.
    fn first(&self, index: &Affine, kernel: &Kernel) -> i128 {
        let value = |name| {
            let var = kernel.vars().iter().position(|var| var.name == name);
            self.at[var.expect("a checked kernel binds all its indices; this is a bug in polyshard")]
        };
        let terms = index.terms.iter().map(|&(name, factor)| i128::from(factor) * i128::from(value(name)));
        terms.sum::<i128>() + i128::from(index.constant)
    }
}

/// One dimension of an access along a row.
struct Dim {
    first: i128,
    by: i64,
    period: Option<i64>,
    extent: usize,
    stride: usize,
}

impl Dim {
    fn offset(&self, nth: usize) -> usize {
        self.inside(nth).expect("a checked kernel stays inside its tensors; this is a bug in polyshard")
    }

    /// The offset that it adds; `None` if it is outside.
    fn inside(&self, nth: usize) -> Option<usize> {
        let sum = self.first + i128::from(self.by) * nth as i128;
        let element = self.period.map_or(sum, |period| sum.rem_euclid(i128::from(period)));
        let element = usize::try_from(element).ok().filter(|&element| element < self.extent)?;
        Some(element * self.stride)
    }
}
