//! Combination of the values of a row into the output.

use super::vector;
use crate::{Element, ReduceOp};

/// Lanes in which values of a row are combined when the row reduces to one element.
const LANES: usize = 32;

/// A row that is combined to one value: lane `i` takes points `i`, `i + 32`, and so on.
#[derive(Clone, Copy)]
pub(super) struct Lanes<T> {
    lanes: [T; LANES],
    filled: usize,
}

impl<T: Element> Lanes<T> {
    pub(super) fn new() -> Self {
        Self { lanes: [T::ZERO; LANES], filled: 0 }
    }

    /// Takes the row's next values; their number is a multiple of 32, except the last time.
    pub(super) fn combine(&mut self, values: &[T], op: ReduceOp) {
        // One loop per operation, each of them simple enough to vectorise.
        match op {
            ReduceOp::Sum => self.combine_with(values, T::add),
            ReduceOp::Product => self.combine_with(values, T::multiply),
            ReduceOp::Max if self.has_nan(values) => self.combine_with(values, T::maximum),
            ReduceOp::Max => self.combine_with(values, T::greater),
            ReduceOp::Min if self.has_nan(values) => self.combine_with(values, T::minimum),
            ReduceOp::Min => self.combine_with(values, T::smaller),
            ReduceOp::Records(_) => unreachable!("records are combined whole; this is a bug in polyshard"),
        }
    }

    /// Whether a lane or a value is a NaN.
    fn has_nan(&self, values: &[T]) -> bool {
        let mut lanes = self.lanes;
        vector::fold(&mut lanes, values, |lane, value| if is_nan(lane) { lane } else { value });
        lanes.into_iter().any(is_nan)
    }

    fn combine_with(&mut self, values: &[T], op: impl Fn(T, T) -> T) {
        let mut values = values;
        if self.filled == 0 {
            self.filled = values.len().min(LANES);
            self.lanes[..self.filled].copy_from_slice(&values[..self.filled]);
            values = &values[self.filled..];
        }
        vector::fold(&mut self.lanes, values, op);
    }

    /// All lanes combined.
    pub(super) fn meet(&self, op: ReduceOp) -> T {
        let mut lanes = self.lanes;
        if self.filled < LANES {
            return lanes[1..self.filled].iter().fold(lanes[0], |sum, &value| op.combine(sum, value));
        }
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] = op.combine(lanes[i], lanes[i + width]);
            }
            width /= 2;
        }
        lanes[0]
    }
}

#[inline(always)]
fn is_nan<T: Element>(value: T) -> bool {
    value.ne(&value)
}

/// Combines values into the elements of `c` at `offset`, `offset + stride` and so on; `stride` is not 0.
pub(super) fn accumulate<T: Element>(c: &mut [T], offset: i64, stride: i64, values: &[T], op: ReduceOp) {
    match op {
        ReduceOp::Sum => accumulate_with(c, offset, stride, values, T::add),
        ReduceOp::Product => accumulate_with(c, offset, stride, values, T::multiply),
        ReduceOp::Max => accumulate_with(c, offset, stride, values, T::maximum),
        ReduceOp::Min => accumulate_with(c, offset, stride, values, T::minimum),
        ReduceOp::Records(_) => unreachable!("records are combined whole; this is a bug in polyshard"),
    }
}

/// Overwrites the elements of `c` at `offset`, `offset + stride` and so on with the values combined into the identity, which changes
/// `-0.0`; `stride` is not 0.
pub(super) fn store<T: Element>(c: &mut [T], offset: i64, stride: i64, values: &[T], op: ReduceOp) {
    match op {
        ReduceOp::Sum => store_with(c, offset, stride, values, |value| T::ZERO.add(value)),
        _ => store_with(c, offset, stride, values, |value| op.combine(op.identity(), value)),
    }
}

fn store_with<T: Element>(c: &mut [T], offset: i64, stride: i64, values: &[T], op: impl Fn(T) -> T) {
    if stride == 1 {
        vector::rows(&mut c[offset as usize..][..values.len()], [values], &|[value]: [T; 1]| op(value));
    } else {
        for (i, &value) in values.iter().enumerate() {
            c[(offset + i as i64 * stride) as usize] = op(value);
        }
    }
}

fn accumulate_with<T: Element>(c: &mut [T], offset: i64, stride: i64, values: &[T], op: impl Fn(T, T) -> T) {
    if stride == 1 {
        vector::update(&mut c[offset as usize..][..values.len()], [values], &|held, [value]: [T; 1]| op(held, value));
    } else {
        for (i, &value) in values.iter().enumerate() {
            let c = &mut c[(offset + i as i64 * stride) as usize];
            *c = op(*c, value);
        }
    }
}
