//! Combining buffers of elements that are known as bytes only.
//!
//! The element type is a value here, so one match per buffer picks a loop over the type; no match is made per
//! element. Buffers need not be aligned.

use crate::{DType, ReduceOp};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use polyshard_layout::Combine;
use std::ops::Range;

/// Elements summed up per chunk: few enough to stay in the L1 cache.
pub const CHUNK: usize = 512;

/// Combines `with` into `into`, element by element: `into[i] = into[i] op with[i]`.
///
/// # Panics
/// If the lengths differ or are not whole elements, or `dtype` is not native; callers have checked both.
pub fn combine(dtype: DType, op: ReduceOp, into: &mut [u8], with: &[u8]) {
    match dtype {
        DType::F32 => typed::<f32>(op, into, with),
        DType::F64 => typed::<f64>(op, into, with),
        DType::I32 => typed::<i32>(op, into, with),
        DType::I64 => typed::<i64>(op, into, with),
        DType::I8 | DType::Bf16 => unreachable!("programs do not compute in {dtype}; this is a bug in polyshard"),
    }
}

/// Combines terms as long as `into`, one after the other, into `into`, which holds the first one: chunk by chunk, so that the sums of a
/// chunk stay in the L1 cache.
///
/// # Panics
/// As [`combine`].
pub fn combine_terms<'a>(dtype: DType, op: ReduceOp, into: &mut [u8], others: impl Iterator<Item = &'a [u8]> + Clone) {
    // Whole elements of any type.
    let bytes = match op {
        ReduceOp::Records(records) => records.size() * dtype.size(),
        _ => CHUNK * size_of::<u64>(),
    };
    for (nth, into) in into.chunks_mut(bytes).enumerate() {
        let chunk = nth * bytes..nth * bytes + into.len();
        others.clone().for_each(|term| combine(dtype, op, into, &term[chunk.clone()]));
    }
}

/// Combines the `len` elements of terms, the first term to the last, chunk by chunk: `terms` returns each term's elements at the positions
/// of a chunk, and `put` gets the results, which are in `sums`. The order of the sums does not depend on where the terms are stored.
///
/// # Panics
/// As [`combine`], and if there are no terms.
pub fn combine_in_chunks<'a, T: Combine + Pod, I: Iterator<Item = &'a [T]>>(
    op: ReduceOp,
    len: usize,
    sums: &mut [T; CHUNK],
    terms: impl Fn(Range<usize>) -> I,
    mut put: impl FnMut(Range<usize>, &[T]),
) {
    if let ReduceOp::Records(records) = op {
        let mut terms = terms(0..len);
        let mut sums = terms.next().expect("a group has a member; this is a bug in polyshard").to_vec();
        terms.for_each(|term| records.combine(&mut sums, term));
        return put(0..len, &sums);
    }
    for start in (0..len).step_by(CHUNK) {
        let chunk = start..len.min(start + CHUNK);
        let sums = &mut sums[..chunk.len()];
        let mut terms = terms(chunk.clone());
        sums.copy_from_slice(terms.next().expect("a group has a member; this is a bug in polyshard"));
        terms.for_each(|term| typed::<T>(op, cast_slice_mut(sums), cast_slice(term)));
        put(chunk, sums);
    }
}

fn typed<T: Combine + Pod>(op: ReduceOp, into: &mut [u8], with: &[u8]) {
    // One loop per operation, so that each is a plain vector loop.
    match op {
        ReduceOp::Sum => each(into, with, |left: T, right| left.combined(ReduceOp::Sum, right)),
        ReduceOp::Product => each(into, with, |left: T, right| left.combined(ReduceOp::Product, right)),
        ReduceOp::Max => each(into, with, |left: T, right| left.combined(ReduceOp::Max, right)),
        ReduceOp::Min => each(into, with, |left: T, right| left.combined(ReduceOp::Min, right)),
        ReduceOp::Records(records) => {
            // Messages need not be aligned.
            let aligned = |bytes: &[u8]| -> Vec<T> {
                bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
            };
            let mut held = aligned(into);
            records.combine(&mut held, &aligned(with));
            into.copy_from_slice(cast_slice(&held));
        }
    }
}

#[inline(always)]
fn each<T: Pod>(into: &mut [u8], with: &[u8], op: impl Fn(T, T) -> T) {
    assert_eq!(into.len(), with.len(), "contributions of different lengths met: this is a bug in polyshard");
    let size = size_of::<T>();
    assert!(into.len().is_multiple_of(size), "a contribution ends inside an element: this is a bug in polyshard");
    for (into, with) in into.chunks_exact_mut(size).zip(with.chunks_exact(size)) {
        let combined: T = op(bytemuck::pod_read_unaligned(into), bytemuck::pod_read_unaligned(with));
        into.copy_from_slice(bytemuck::bytes_of(&combined));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T: Combine + Pod>(dtype: DType, pairs: &[(T, T)]) -> Result<(), TestCaseError> {
        let (left, right): (Vec<T>, Vec<T>) = pairs.iter().copied().unzip();
        for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
            let mut into = left.clone();
            combine(dtype, op, bytemuck::cast_slice_mut(&mut into), bytemuck::cast_slice(&right));
            let expected: Vec<T> = pairs.iter().map(|&(left, right)| op.combine(left, right)).collect();
            prop_assert_eq!(bytemuck::cast_slice::<T, u8>(&into), bytemuck::cast_slice::<T, u8>(&expected));
        }
        Ok(())
    }

    proptest! {
        /// Combining bytes is the same as combining elements.
        #[test]
        fn bytes_combine_as_the_elements_do(
            floats in prop::collection::vec((-1e9f64..1e9, -1e9f64..1e9), 0..40),
            integers in prop::collection::vec(any::<(i64, i64)>(), 0..40),
        ) {
            check(DType::F64, &floats)?;
            check(DType::F32, &floats.iter().map(|&(a, b)| (a as f32, b as f32)).collect::<Vec<_>>())?;
            check(DType::I64, &integers)?;
            check(DType::I32, &integers.iter().map(|&(a, b)| (a as i32, b as i32)).collect::<Vec<_>>())?;
        }
    }
}
