//! The sequential meaning of a kernel: every statement instance in turn, on whole arrays.
//!
//! Shares nothing with the back ends except the kernel, so that it can judge them. Instances are taken in rows along
//! one index, chosen so that the terms of each element of the output keep their order; those of products, in blocks of
//! rows.

mod blocked;
mod row;

use crate::instances::Instances;
use crate::leaf::op;
use crate::{Element, ReduceOp, Result, RunError};
use blocked::Blocked;
use ndarray::{ArrayD, IxDyn};
use polyshard_program::{Affine, Assign, Kernel};
use row::{Arrays, Offsets, Row};

/// The instances that are computed together.
const ROW: usize = 1024;

/// Evaluates `kernel` on whole inputs, given in its order; `into` is the output's previous contents.
///
/// Without `into` the output starts from the identity of the kernel's operation, zeros for `=` and `+=`; with it, `=`
/// overwrites the elements at the statement's index and no others. The terms of an element are added in the order of
/// the loops, one after the other. All of it runs on one core: the time is proportional to the product of all extents.
///
/// ```
/// use polyshard::ndarray::{ArrayD, IxDyn};
/// use polyshard::prelude::*;
/// let sums = kernel! { fn sums(A: [f64; 2, 3]) -> b: [f64; 2] { b[i] += A[i, j] } };
/// let a = ArrayD::from_shape_fn(IxDyn(&[2, 3]), |index| (3 * index[0] + index[1]) as f64);
/// let b = polyshard::runtime::reference(sums.kernel()?, &[&a], None)?;
/// assert_eq!(b.as_slice(), Some(&[3.0, 12.0][..]));
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// [`RunError`] if an array has another shape than its tensor, or their number is not the kernel's.
pub fn reference<T: Element>(kernel: &Kernel, inputs: &[&ArrayD<T>], into: Option<ArrayD<T>>) -> Result<ArrayD<T>> {
    T::reference(kernel, inputs, into)
}

pub(crate) fn evaluate<T: Element>(
    kernel: &Kernel,
    inputs: &[&ArrayD<T>],
    into: Option<ArrayD<T>>,
) -> Result<ArrayD<T>> {
    if inputs.len() != kernel.inputs().len() {
        let (kernel, wanted) = (kernel.name(), kernel.inputs().len());
        return Err(RunError::WholeInputs { kernel, wanted, given: inputs.len() }.into());
    }
    let (shape, op) = (&kernel.output().shape, op(kernel.assign()));
    let mut output = match into {
        Some(into) => into.as_standard_layout().into_owned(),
        None => ArrayD::from_elem(IxDyn(shape), op.identity()),
    };
    let arrays = inputs.iter().copied().chain([&output]);
    for (array, tensor) in arrays.zip(kernel.tensors()) {
        if array.shape() != &tensor.shape[..] {
            let (wanted, given) = (tensor.shape.clone(), array.shape().into());
            return Err(RunError::WholeShape { tensor: tensor.name, wanted, given }.into());
        }
    }
    if kernel.assign() == Assign::Set {
        restart(kernel, &mut output);
    }
    let arrays = Arrays::new(kernel, inputs);
    if let Some(blocked) = Blocked::new(kernel) {
        blocked.run(&arrays, output.as_slice_mut().expect("it is made in row-major order"));
        return Ok(output);
    }
    let (along, most) = match record_index(kernel) {
        Some(record) => (record, usize::MAX),
        None => (row_index(kernel), ROW),
    };
    let extents = kernel.vars().iter().enumerate().map(|(nth, var)| if nth == along { 1 } else { var.extent });
    let extent = kernel.vars().get(along).map_or(1, |var| var.extent);
    for mut at in points(extents.collect()) {
        // The original statement, whose indices run over their own ranges.
        for (value, var) in at.iter_mut().zip(kernel.vars()) {
            *value += var.start;
        }
        for begin in (0..extent).step_by(most) {
            let mut row = Row { at: at.clone(), along, len: most.min(extent - begin) };
            if let Some(first) = row.at.get_mut(along) {
                *first += begin as i64;
            }
            let values = row.evaluate(kernel.written_value(), &arrays);
            let offsets = row.offsets(kernel.written_target(), kernel, shape);
            // A call per operation, so that the loop does not branch.
            match kernel.assign() {
                Assign::Set | Assign::Add => combine(&mut output, offsets, &values, T::add),
                Assign::Mul => combine(&mut output, offsets, &values, T::multiply),
                Assign::Max => combine(&mut output, offsets, &values, T::maximum),
                Assign::Min => combine(&mut output, offsets, &values, T::minimum),
                Assign::Running(_) => combine_record(&mut output, offsets, &values, op),
            }
        }
    }
    Ok(output)
}

/// Sets each element that the kernel writes to its value before the first term.
pub(crate) fn restart<T: Element>(kernel: &Kernel, output: &mut ArrayD<T>) {
    // Contracted indices do not determine which elements are written: if one has no values, the sum is empty.
    let extents = kernel.vars().iter().map(|var| if kernel.target().mentions(var.name) { var.extent } else { 1 });
    let elements = output.as_slice_mut().expect("it is made in row-major order");
    for at in points(extents.collect()) {
        // A row along no index is one instance.
        let row = Row { at, along: kernel.vars().len(), len: 1 };
        if let Offsets::Same(offset) = row.offsets(kernel.target(), kernel, &kernel.output().shape) {
            elements[offset] = op(kernel.assign()).identity();
        }
    }
}

/// Combines each value into its element, in order.
fn combine<T: Element>(output: &mut ArrayD<T>, offsets: Offsets, values: &[T], by: impl Fn(T, T) -> T) {
    let elements = output.as_slice_mut().expect("it is made in row-major order");
    match offsets {
        Offsets::Same(offset) => elements[offset] = values.iter().fold(elements[offset], |sum, &value| by(sum, value)),
        Offsets::Consecutive(offset) => {
            elements[offset..offset + values.len()].iter_mut().zip(values).for_each(|(e, &value)| *e = by(*e, value));
        }
        Offsets::Each(offsets) => {
            for (offset, &value) in offsets.into_iter().zip(values) {
                elements[offset] = by(elements[offset], value);
            }
        }
    }
}

/// Combines the record of one term.
fn combine_record<T: Element>(output: &mut ArrayD<T>, offsets: Offsets, values: &[T], op: ReduceOp) {
    let elements = output.as_slice_mut().expect("it is made in row-major order");
    let (Offsets::Consecutive(offset), ReduceOp::Records(records)) = (offsets, op) else {
        unreachable!("the elements of a record are contiguous; this is a bug in polyshard")
    };
    records.combine(&mut elements[offset..offset + values.len()], values);
}

/// The index over the elements of records, if the kernel combines records.
fn record_index(kernel: &Kernel) -> Option<usize> {
    let name = kernel.record_index()?;
    kernel.vars().iter().position(|var| var.name == name)
}

/// The index along which rows run: one that makes up a dimension of the target alone, so that the instances of a row
/// write different elements, and those that write the same element keep their order; else the last.
///
/// The last dimension is contiguous in memory, which matters more than a longer row if its own are long enough.
fn row_index(kernel: &Kernel) -> usize {
    let alone = |index: &Affine| match &index.terms[..] {
        &[(name, _)] => kernel.vars().iter().position(|var| var.name == name && index.period().is_none()),
        _ => None,
    };
    let last = kernel.vars().len().saturating_sub(1);
    let candidates = kernel.written_target().index.iter().filter_map(alone);
    candidates.max_by_key(|&nth| kernel.vars()[nth].extent.min(64)).unwrap_or(last)
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

#[cfg(test)]
mod tests {
    use super::reference;
    use crate::{DType, Element};
    use ndarray::{Array2, ArrayD, Ix2};
    use polyshard_program::{Access, Affine, KernelSpec, Value};
    use polyshard_testing::example;

    fn random(seed: u64, shape: [usize; 2]) -> Array2<f64> {
        Array2::from_shape_fn(shape, |(i, j)| f64::random(seed, &[i, j]))
    }

    fn check(spec: KernelSpec, [a, b]: [&Array2<f64>; 2], term: impl Fn([usize; 3]) -> f64, [m, n, k]: [usize; 3]) {
        let kernel = KernelSpec { dtype: DType::F64, ..spec }.check().expect("a kernel");
        let inputs = [a, b].map(|array| array.clone().into_dyn());
        let before: ArrayD<f64> = random(3, [m, n]).into_dyn();
        let found = reference(&kernel, &[&inputs[0], &inputs[1]], Some(before.clone())).expect("shapes fit");
        let found = found.into_dimensionality::<Ix2>().expect("a matrix");
        for ((i, j), found) in found.indexed_iter() {
            // Sums in this order have these bits.
            let expected = (0..k).fold(before[[i, j]], |sum, p| sum + term([i, j, p]));
            assert_eq!(found.to_bits(), expected.to_bits(), "element [{i}, {j}]");
        }
    }

    #[test]
    fn sums_in_blocks_have_the_bits_of_terms_in_order() {
        // More than a block of columns and of terms, and none of them whole.
        let [m, n, k] = [3, 517, 131];
        let (a, b) = (random(1, [m, k]), random(2, [k, n]));
        check(example::matmul(m, n, k), [&a, &b], |[i, j, p]| a[[i, p]] * b[[p, j]], [m, n, k]);
        // Backwards, by steps of two, and with the factors swapped.
        let (a, b) = (random(1, [2 * m, k]), random(2, [k, n]));
        let mut spec = example::matmul(m, n, k);
        spec.inputs[0].1 = vec![2 * m as i128, k as i128];
        let back = Affine::new([("k".into(), -1)], k as i64 - 1);
        let left = Access::new("A".into(), vec![Affine::new([("m".into(), 2)], 1), back]);
        let right = Access::plain("B", &["k", "n"]);
        spec.value = Value::Mul(Box::new(Value::Access(right)), Box::new(Value::Access(left)));
        check(spec, [&a, &b], |[i, j, p]| b[[p, j]] * a[[2 * i + 1, k - 1 - p]], [m, n, k]);
    }
}
