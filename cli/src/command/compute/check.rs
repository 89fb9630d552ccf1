//! `--check`: compares the result with a sequential computation.

use super::Files;
use crate::error::{CliError, Result};
use polyshard::layout::{DType, Name};
use polyshard::ndarray::{ArrayD, Axis, Dimension, Slice};
use polyshard::program::{Assign, Conditional, Function, Kernel, Program, Value};
use polyshard::runtime::{self, DistArray, Element, Execute, NpyFile, RunError, World, reference};
use polyshard::search::Order;
use std::collections::HashMap;

/// The outcome of a check.
pub(crate) struct Checked {
    /// The number of rows that were compared, and of all rows.
    pub(crate) rows: [usize; 2],
    /// The largest difference, relative to a magnitude.
    pub(crate) error: f64,
    /// The magnitude, as text.
    pub(crate) of: &'static str,
}

/// Limit on the rows that are compared.
const ROWS: usize = 8;

/// The magnitude for sums: rounding errors grow with the terms, and a sum that cancels can be far smaller than they are.
const TERMS: &str = "the sum of the absolute values of its terms";

/// The magnitude for other results.
const ELEMENT: &str = "the element itself";

/// Computes rows of the result sequentially, at equal distances along its first dimension, and compares them with the file.
///
/// # Errors
/// If an element is off by more than rounding explains, or a file cannot be read.
pub(super) fn rows<T: Element>(kernel: &Kernel, files: &Files<'_>) -> Result<Checked> {
    let found = NpyFile::open(&files.outs[0].path)?.read::<T>()?;
    let path = |name: Name| files.inputs.iter().find(|(other, _)| *other == name).map(|(_, path)| path);
    let inputs = kernel.inputs().iter().filter_map(|tensor| path(tensor.name));
    let inputs = inputs.map(|path| NpyFile::open(path)?.read::<T>()).collect::<Result<Vec<_>, _>>()?;
    let Some(Sliced { first, dims, count }) = Sliced::new(kernel) else {
        let expected = sequential(kernel, &inputs.iter().collect::<Vec<_>>(), Terms::AsTheyAre)?;
        let rows = expected.shape().first().copied().unwrap_or(1);
        let (magnitudes, of) = magnitudes(kernel, &inputs.iter().collect::<Vec<_>>(), &expected)?;
        return Ok(Checked { rows: [rows, rows], error: error(&found, &expected, &magnitudes, of, 0)?, of });
    };
    // The kernel that computes one row.
    let mut spec = kernel.spec().clone();
    spec.inputs.iter_mut().zip(&dims).for_each(|((_, shape), dims)| dims.iter().for_each(|&dim| shape[dim] = 1));
    spec.output.1[0] = 1;
    spec.ranges.iter_mut().filter(|(name, _)| *name == first).for_each(|(_, range)| *range = 0..1);
    let of_row = spec.check().map_err(|why| CliError::Bug { what: format!("a row has no kernel: {why}") })?;
    let chosen: Vec<usize> = (0..count.min(ROWS)).map(|nth| nth * (count - 1) / (count.min(ROWS) - 1).max(1)).collect();
    let (mut largest, mut of): (f64, _) = (0.0, TERMS);
    for &row in &chosen {
        let one = |array: &ArrayD<T>, dims: &[usize]| {
            let mut view = array.view();
            dims.iter().for_each(|&dim| view.slice_axis_inplace(Axis(dim), Slice::from(row..row + 1)));
            view.to_owned()
        };
        let parts: Vec<_> = inputs.iter().zip(&dims).map(|(array, dims)| one(array, dims)).collect();
        let parts: Vec<_> = parts.iter().collect();
        let expected = sequential(&of_row, &parts, Terms::AsTheyAre)?;
        let magnitudes;
        (magnitudes, of) = self::magnitudes(&of_row, &parts, &expected)?;
        largest = largest.max(error(&one(&found, &[0]), &expected, &magnitudes, of, row)?);
    }
    Ok(Checked { rows: [chosen.len(), count], error: largest, of })
}

/// Computes all kernels of a program sequentially, on one rank, and compares all outputs.
///
/// # Errors
/// If an element is off by more than rounding explains.
pub(super) fn whole<T: Element>(
    program: &Program,
    world: &World,
    inputs: &[&DistArray<T>],
    results: &[&DistArray<T>],
) -> Result<Checked> {
    let error = program.verify(world, inputs, results, tolerance::<T>()).map_err(|why| match why.cause() {
        // All ranks share it.
        runtime::Error::Run(RunError::Wrong(_)) | runtime::Error::Root { .. } => {
            CliError::Said { what: why.cause().to_string() }
        }
        _ => why.into(),
    })?;
    let rows = results.iter().map(|result| result.sharding().shape().first().copied().unwrap_or(1)).sum();
    Ok(Checked { rows: [rows, rows], error, of: "the largest element" })
}

/// The parts of the inputs that a row of the result needs.
struct Sliced {
    /// The index of the result's rows.
    first: Name,
    /// For each input, the dimensions along which a row needs a single element.
    dims: Vec<Vec<usize>>,
    /// How many rows there are.
    count: usize,
}

impl Sliced {
    /// Returns `None` if rows cannot be computed separately.
    fn new(kernel: &Kernel) -> Option<Self> {
        let first = kernel.target().index.first()?.as_variable()?;
        let var = kernel.vars().iter().find(|var| var.name == first)?;
        let is_alone = |access: &polyshard::program::Access| {
            access.index.iter().all(|index| index.as_variable() == Some(first) || index.coefficient(first) == 0)
        };
        let once = kernel.target().index.iter().filter(|index| index.coefficient(first) != 0).count() == 1;
        if !once
            || var.start != 0
            || var.extent < 2
            || !kernel.value().accesses().into_iter().all(is_alone)
            || !kernel.value().indices().is_empty()
        {
            return None;
        }
        let dims = kernel.inputs().iter().map(|tensor| {
            let mut of_accesses = kernel.accesses_of(tensor.name).into_iter().map(|access| {
                let dims = access.index.iter().enumerate().filter(|(_, index)| index.as_variable() == Some(first));
                dims.map(|(dim, _)| dim).collect::<Vec<_>>()
            });
            let dims = of_accesses.next()?;
            of_accesses.all(|other| other == dims).then_some(dims)
        });
        Some(Self { first, dims: dims.collect::<Option<Vec<_>>>()?, count: var.extent })
    }
}

/// The largest relative difference that rounding explains.
fn tolerance<T: Element>() -> f64 {
    match T::DTYPE {
        DType::F32 => 1e-4,
        DType::F64 => 1e-10,
        _ => 0.0,
    }
}

/// The magnitude of each element: the sum of the absolute values of its terms, or its own for results other than sums of floats. Also returns
/// which of the two, as text.
fn magnitudes<T: Element>(
    kernel: &Kernel,
    inputs: &[&ArrayD<T>],
    expected: &ArrayD<T>,
) -> Result<(Vec<f64>, &'static str)> {
    let sizes = |array: &ArrayD<T>| array.iter().map(|element| element.distance(T::ZERO)).collect();
    if !matches!(kernel.assign(), Assign::Set | Assign::Add) || !T::DTYPE.is_float() {
        return Ok((sizes(expected), ELEMENT));
    }
    Ok((sizes(&sequential(kernel, inputs, Terms::Absolute)?), TERMS))
}

/// The terms of a sum.
#[derive(Clone, Copy)]
enum Terms {
    AsTheyAre,
    /// Their absolute values.
    Absolute,
}

/// Computes a kernel on one core; a product of several tensors pairwise, in an order that does not depend on the schedule.
fn sequential<T: Element>(kernel: &Kernel, inputs: &[&ArrayD<T>], terms: Terms) -> Result<ArrayD<T>> {
    let order = Order::pairwise(kernel);
    let stages = order.as_ref().map_or(std::slice::from_ref(kernel), Order::stages);
    let mut made: HashMap<Name, ArrayD<T>> = HashMap::new();
    for stage in stages {
        let absolute;
        let computed = match terms {
            Terms::AsTheyAre => stage,
            Terms::Absolute => {
                let mut spec = stage.spec().clone();
                spec.value = magnitude(spec.value);
                let what = |why| CliError::Bug { what: format!("magnitudes have no kernel: {why}") };
                absolute = spec.check().map_err(what)?;
                &absolute
            }
        };
        let given = |name: Name| kernel.inputs().iter().position(|input| input.name == name).map(|nth| inputs[nth]);
        let read = stage.inputs().iter().map(|input| made.get(&input.name).or_else(|| given(input.name)));
        let missing = || CliError::Bug { what: format!("nothing computes an input of `{}`", stage.statement()) };
        let result = reference(computed, &read.collect::<Option<Vec<_>>>().ok_or_else(missing)?, None)?;
        // Each result is read once.
        made.retain(|name, _| stage.inputs().iter().all(|input| input.name != *name));
        made.insert(stage.output().name, result);
    }
    let missing = || CliError::Bug { what: format!("nothing computes the output of `{}`", kernel.statement()) };
    made.remove(&kernel.output().name).ok_or_else(missing)
}

/// The value with absolute values of terms in sums and differences.
fn magnitude(value: Value) -> Value {
    let inside = |value: Box<Value>| Box::new(magnitude(*value));
    match value {
        Value::Neg(inner) => magnitude(*inner),
        Value::Add(left, right) | Value::Sub(left, right) => Value::Add(inside(left), inside(right)),
        Value::Mul(left, right) => Value::Mul(inside(left), inside(right)),
        Value::Div(left, right) => Value::Div(inside(left), Box::new(Value::Call(Function::Abs, right))),
        Value::If(choice) => {
            let (then, otherwise) = (magnitude(choice.then), magnitude(choice.otherwise));
            Value::If(Box::new(Conditional { then, otherwise, ..*choice }))
        }
        other => Value::Call(Function::Abs, Box::new(other)),
    }
}

/// The largest difference of elements, relative to their magnitudes, which `of` describes; row 0 is row `first` of the result.
fn error<T: Element>(
    found: &ArrayD<T>,
    expected: &ArrayD<T>,
    magnitudes: &[f64],
    of: &str,
    first: usize,
) -> Result<f64> {
    let tolerance = tolerance::<T>();
    let mut largest: f64 = 0.0;
    for (((index, expected), found), magnitude) in expected.indexed_iter().zip(found).zip(magnitudes) {
        let distance = found.distance(*expected);
        let error = relative(distance, *magnitude, expected.distance(T::ZERO));
        if error > tolerance {
            let mut index = index.slice().to_vec();
            index.iter_mut().take(1).for_each(|row| *row += first);
            let what = format!(
                "element {index:?} is {found}, but {expected} in a sequential computation: the difference is {error:.1e} of {of}, \
                 and rounding explains at most {tolerance:e}"
            );
            return Err(CliError::Bug { what });
        }
        largest = largest.max(error);
    }
    Ok(largest)
}

/// A difference relative to a magnitude, or to the element's own size if that is not finite. Infinite elements have to be equal.
fn relative(distance: f64, magnitude: f64, own: f64) -> f64 {
    let size = if magnitude.is_finite() { magnitude } else { own };
    match distance {
        0.0 => 0.0,
        _ if size.is_finite() => distance / size,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn what_is_not_finite_has_to_be_equal() {
        assert_eq!(relative(0.0, f64::NAN, f64::NAN), 0.0);
        assert_eq!(relative(2.0, 8.0, 1.0), 0.25);
        // Where magnitudes overflow, the element is compared with itself.
        assert_eq!(relative(2.0, f64::INFINITY, 4.0), 0.5);
        for size in [f64::INFINITY, f64::NAN] {
            assert_eq!(relative(f64::INFINITY, size, size), f64::INFINITY);
            assert_eq!(relative(3.0, size, size), f64::INFINITY);
        }
    }
}
