//! Strided loop nests: any pointwise kernel, accumulated into an output.
//!
//! The innermost loop is evaluated in chunks of 256 points. Operands of unit stride are read in place, others
//! are gathered first, so that a kernel only ever sees rows and the compiler vectorises it.

use super::pointwise::CHUNK;
use super::walk::{Loop, walk};
use super::{Pointwise, Rows};
use crate::{Element, ReduceOp, Strided, StridedMut};

/// Points of a row that are combined side by side when the row reduces to one element.
const LANES: usize = 16;

/// Combines into `c`, with `op`, the kernel's value at every point of the loops, the last loop innermost.
///
/// Points come in lexicographic order. Where the innermost loop leaves `c` in place, the values of each chunk
/// of 256 points are first combined with one another in 16 lanes; the order depends on the counts and strides
/// alone, never on the kernel, so closures and expressions agree to the last bit.
///
/// # Panics
/// If an operand would be touched outside its data: a bug of polyshard.
#[track_caller]
pub fn nest<T: Element>(
    counts: &[usize],
    c: StridedMut<'_, T>,
    op: ReduceOp,
    operands: &[Strided<'_, T>],
    kernel: &impl Pointwise<T>,
) {
    let mut strides = vec![c.checked_strides("c", counts)];
    strides.extend(operands.iter().enumerate().map(|(i, operand)| operand.checked_strides(&i.to_string(), counts)));
    if counts.contains(&0) {
        return;
    }
    let mut outer = merged(Loop::all(counts, &strides));
    let inner = outer.pop().unwrap_or_else(|| Loop::once(strides.len()));
    let mut offsets = vec![c.offset];
    offsets.extend(operands.iter().map(|operand| operand.offset));

    let mut gather = Gather::new(operands, &inner);
    let mut values = [T::ZERO; CHUNK];
    walk(&outer, &mut offsets, &mut |at| {
        for start in (0..inner.count).step_by(CHUNK) {
            let len = CHUNK.min(inner.count - start);
            let values = &mut values[..len];
            kernel.row(&gather.rows(&at[1..], start, len), values);
            accumulate(c.data, at[0] + start as i64 * inner.strides[0], inner.strides[0], values, op);
        }
    });
}

/// Drops loops of one iteration and merges neighbours that continue one another, which keeps the order.
fn merged(loops: Vec<Loop>) -> Vec<Loop> {
    let mut merged: Vec<Loop> = Vec::with_capacity(loops.len());
    for mut one in loops.into_iter().filter(|one| one.count > 1) {
        while let Some(outer) = merged.pop_if(|outer| outer.continues(&one)) {
            one.count *= outer.count;
        }
        merged.push(one);
    }
    merged
}

/// The operands along the innermost loop, and room for the rows of those that are not of unit stride.
struct Gather<'a, T> {
    operands: &'a [Strided<'a, T>],
    strides: &'a [i64],
    width: usize,
    offsets: Vec<i64>,
    gathered: Vec<T>,
    repeated: Vec<Option<i64>>,
}

impl<'a, T: Element> Gather<'a, T> {
    fn new(operands: &'a [Strided<'a, T>], inner: &'a Loop) -> Self {
        let strides = &inner.strides[1..];
        let room = if strides.iter().all(|&stride| stride == 1) { 0 } else { operands.len() * CHUNK };
        Self {
            operands,
            strides,
            width: inner.count.min(CHUNK),
            offsets: vec![0; operands.len()],
            gathered: vec![T::ZERO; room],
            repeated: vec![None; operands.len()],
        }
    }

    fn rows(&mut self, at: &[i64], start: usize, len: usize) -> Rows<'_, T> {
        for (i, operand) in self.operands.iter().enumerate() {
            let stride = self.strides[i];
            let offset = at[i] + start as i64 * stride;
            self.offsets[i] = offset;
            if stride == 1 {
                continue;
            }
            let row = &mut self.gathered[i * CHUNK..][..self.width];
            if stride == 0 {
                // One element for the whole row: written out once for as long as it stays the same.
                if self.repeated[i].replace(offset) != Some(offset) {
                    row.fill(operand.data[offset as usize]);
                }
            } else {
                for (j, value) in row[..len].iter_mut().enumerate() {
                    *value = operand.data[(offset + j as i64 * stride) as usize];
                }
            }
        }
        Rows { operands: self.operands, offsets: &self.offsets, strides: self.strides, gathered: &self.gathered, len }
    }
}

fn accumulate<T: Element>(c: &mut [T], offset: i64, stride: i64, values: &[T], op: ReduceOp) {
    // One loop per operation, each of them simple enough to vectorise.
    match op {
        ReduceOp::Sum => accumulate_with(c, offset, stride, values, T::plus),
        ReduceOp::Product => accumulate_with(c, offset, stride, values, T::times),
        ReduceOp::Max => accumulate_with(c, offset, stride, values, T::greater),
        ReduceOp::Min => accumulate_with(c, offset, stride, values, T::smaller),
    }
}

fn accumulate_with<T: Element>(c: &mut [T], offset: i64, stride: i64, values: &[T], op: impl Fn(T, T) -> T) {
    match stride {
        1 => {
            let c = &mut c[offset as usize..][..values.len()];
            c.iter_mut().zip(values).for_each(|(c, &value)| *c = op(*c, value));
        }
        0 => {
            let c = &mut c[offset as usize];
            *c = op(*c, folded(values, &op));
        }
        _ => {
            for (i, &value) in values.iter().enumerate() {
                let c = &mut c[(offset + i as i64 * stride) as usize];
                *c = op(*c, value);
            }
        }
    }
}

/// Combines a chunk's values: lane `i` takes points `i`, `i + 16`, and so on; then the lanes meet in pairs.
fn folded<T: Element>(values: &[T], op: impl Fn(T, T) -> T) -> T {
    let Some((first, rest)) = values.split_first_chunk::<LANES>() else {
        return values[1..].iter().fold(values[0], |sum, &value| op(sum, value));
    };
    let mut lanes = *first;
    for group in rest.chunks(LANES) {
        lanes.iter_mut().zip(group).for_each(|(lane, &value)| *lane = op(*lane, value));
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = op(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}
