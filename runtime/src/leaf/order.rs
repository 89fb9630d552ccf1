//! The order in which a nest visits its points: which loop is innermost, and which one is walked beside it.

use super::walk::{Loop, Loops};
use crate::Element;

/// Bytes that come from memory together.
const LINE: u64 = 64;
/// What a row costs besides its elements, as bytes of memory traffic.
const ROW: u64 = 512;

/// The loops of a nest in the order in which they run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The loops outside, outermost first.
    pub(super) outer: Loops,
    /// A loop directly around the innermost one that moves some operand by one element, where `inner` moves the same
    /// operand by more: as in a transpose. Or the next loop around it whose rows are all combined into one row of the output, as in
    /// sums of columns. Otherwise the loop of one iteration.
    pub(super) cross: Loop,
    /// The innermost loop.
    pub(super) inner: Loop,
}

impl Order {
    /// The order for loops whose strides are those of the output, then of the operands.
    ///
    /// Loops of one iteration are dropped, and neighbours that continue one another are merged. The loop whose
    /// iterations touch the fewest bytes of memory becomes the innermost one, the last of those that are as good.
    /// Of the strides, `walks` in all, only the first `operands` are of memory.
    pub(super) fn new<T: Element>(loops: Loops, walks: usize, operands: usize) -> Self {
        let mut loops = merged(loops);
        let traffic = |one: &Loop| traffic::<T>(&one.strides[..operands], one.count);
        let Some(inner) = (0..loops.len()).min_by_key(|&l| (traffic(&loops[l]), loops.len() - l)) else {
            return Self { outer: Loops::new(), cross: Loop::once(walks), inner: Loop::once(walks) };
        };
        let inner = loops.remove(inner);
        let crossings = |outer: &Loop| crossings(&outer.strides[..operands], &inner.strides[..operands]);
        let cross = (0..loops.len()).max_by_key(|&l| (crossings(&loops[l]), l));
        let cross = cross.filter(|&l| crossings(&loops[l]) > 0).map(|l| loops.remove(l));
        if let Some(cross) = cross {
            return Self { outer: merged(loops), cross, inner };
        }
        loops.push(inner);
        let mut outer = merged(loops);
        let inner = outer.pop().unwrap_or_else(|| Loop::once(walks));
        let in_rows = inner.strides[..operands].iter().all(|&stride| stride == 1);
        let meets = in_rows && outer.last().is_some_and(|next| next.strides[0] == 0);
        let cross = if meets { outer.pop() } else { None };
        Self { outer, cross: cross.unwrap_or_else(|| Loop::once(walks)), inner }
    }

    /// Whether all rows of the cross loop are combined into one row of the output.
    pub(super) fn meets(&self) -> bool {
        self.cross.count > 1 && self.cross.strides[0] == 0
    }

    /// Whether no two points of the two inner loops write one element of the output.
    pub(super) fn apart(&self) -> bool {
        let (cross, inner) = (self.cross.strides[0].abs(), self.inner.strides[0].abs());
        let reach = |stride: i64, count: usize| stride.saturating_mul(count as i64);
        (inner > 0 && cross >= reach(inner, self.inner.count)) || (cross > 0 && inner >= reach(cross, self.cross.count))
    }
}

/// Drops loops of one iteration and merges neighbours that continue one another, which keeps the order.
fn merged(loops: Loops) -> Loops {
    let mut merged = Loops::new();
    for mut one in loops.into_iter().filter(|one| one.count > 1) {
        while let Some(outer) = merged.last().filter(|outer| outer.continues(&one)) {
            one.count *= outer.count;
            merged.pop();
        }
        merged.push(one);
    }
    merged
}

/// Bytes of memory that one iteration of the loop touches if it is innermost.
fn traffic<T: Element>(strides: &[i64], count: usize) -> u64 {
    let bytes = |stride: i64| stride.unsigned_abs().saturating_mul(T::DTYPE.size() as u64).min(LINE);
    // The output is read and written.
    let elements = bytes(strides[0]) + strides.iter().map(|&stride| bytes(stride)).sum::<u64>();
    elements + ROW / count as u64
}

/// The operands that the outer loop walks with stride 1 and the inner one does not.
fn crossings(outer: &[i64], inner: &[i64]) -> usize {
    let strides = outer.iter().zip(inner).skip(1);
    strides.filter(|&(&outer, &inner)| outer == 1 && inner.abs() > 1).count()
}
