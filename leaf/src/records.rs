//! Running reductions: records of values, which are combined whole, in the order of the loops.
//!
//! The kernel's values are the elements of records that stand for one term each. They are computed for a few records at a time, which are
//! then combined into those of the output. Tests: `tests/it/running.rs`.

mod evaluate;

pub use evaluate::op;

use super::view::moved;
use super::{Element, Strided, StridedMut};
use polyshard_layout::Records;
use smallvec::SmallVec;

/// Elements of the records that are computed together.
const TOGETHER: usize = 1 << 13;

/// Some of the loops of a leaf, of which the others are at a fixed iteration.
pub(super) struct Part<'a> {
    /// The iterations of all loops; the first ones of those that are kept.
    pub(super) at: &'a [usize],
    /// The loops that are kept.
    pub(super) kept: &'a [usize],
}

/// Combines the record at each point of the other loops into that of `c`. One loop runs over the elements of a record, which are
/// contiguous in `c`. `row` returns the first element of the row in a record and its kernel, if the whole kernel shows them, and `compute`
/// writes the values of loops with these numbers of iterations to a place that holds zeros, by the kernel of the row if one is given.
///
/// # Panics
/// If there is no such loop, or an operand would be accessed outside its data: a bug in polyshard.
#[track_caller]
pub(super) fn combine_records<T: Element, K: Copy>(
    counts: &[usize],
    mut c: StridedMut<'_, T>,
    records: Records,
    operands: &[Strided<'_, T>],
    row: impl Fn(usize) -> Option<(usize, K)>,
    compute: impl Fn(&Part<'_>, &[usize], StridedMut<'_, T>, &[Strided<'_, T>], Option<K>),
) {
    c.set();
    let (size, strides) = (records.size(), c.checked_strides("c", counts));
    operands.iter().enumerate().for_each(|(number, operand)| drop(operand.operand_strides(number, counts)));
    if counts.contains(&0) {
        return;
    }
    let loops = 0..counts.len();
    let record = loops.clone().find(|&l| strides[l] == 1 && counts[l] == size);
    let record = record.expect("a loop runs over the elements of a record; this is a bug in polyshard");
    let inner = loops.clone().rev().find(|&l| l != record);
    let (length, step) = inner.map_or((1, 0), |l| (counts[l], strides[l]));
    let together = length.min((TOGETHER / size).max(1));
    // Single elements are computed for many records at once, and rows of elements record by record.
    let row = row(record).filter(|(first, _)| *first < size);
    let parts: Vec<(usize, usize, Option<K>)> = match row {
        Some((first, kernel)) => {
            (0..first).map(|element| (element, 1, None)).chain([(first, size - first, Some(kernel))]).collect()
        }
        None => vec![(0, size, None)],
    };
    let mut values = vec![T::ZERO; together * size];
    let mut at = vec![0; counts.len()];
    loop {
        for start in (0..length).step_by(together) {
            let count = together.min(length - start);
            let values = &mut values[..count * size];
            values.fill(T::ZERO);
            if let Some(inner) = inner {
                at[inner] = start;
            }
            for &(element, elements, kernel) in &parts {
                at[record] = element;
                let is_kept = |l: &usize| *l != record || elements > 1;
                let kept: SmallVec<[usize; 2]> = inner.into_iter().chain([record]).filter(is_kept).collect();
                let of_kept = |of_inner: usize, of_record: usize| -> SmallVec<[usize; 2]> {
                    kept.iter().map(|&l| if l == record { of_record } else { of_inner }).collect()
                };
                let operands: Vec<_> = operands.iter().map(|operand| operand.at(&at, &kept)).collect();
                let steps: Vec<i64> = of_kept(size, 1).into_iter().map(|stride| stride as i64).collect();
                let target = StridedMut::new(&mut *values, element as i64, steps);
                compute(&Part { at: &at, kept: &kept }, &of_kept(count, elements), target, &operands, kernel);
            }
            at[record] = 0;
            let first = c.offset + moved(&strides, &at);
            let mut into = |nth: usize, terms: &[T]| {
                let from = (first + nth as i64 * step) as usize;
                records.fold(&mut c.data[from..from + size], terms);
            };
            match step {
                0 => into(0, values),
                _ => values.chunks_exact(size).enumerate().for_each(|(nth, term)| into(nth, term)),
            }
        }
        // The next point of the other loops, the last one fastest.
        let next = loops.clone().rev().filter(|l| *l != record && Some(*l) != inner).find(|&l| {
            at[l] = (at[l] + 1) % counts[l];
            at[l] > 0
        });
        if next.is_none() {
            return;
        }
    }
}
