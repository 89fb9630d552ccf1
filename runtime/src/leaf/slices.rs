//! Slices of a leaf: messages go on between them.

use super::gemm;
use polyshard_program::SlicesOf;
use std::ops::Range;

/// Multiplications of a slice of a product of matrices, which take some milliseconds.
const MULTIPLICATIONS: usize = if cfg!(test) { 1 } else { 1 << 26 };

/// Points of a slice of a nest, which take as long.
const POINTS: usize = if cfg!(test) { 1 } else { 1 << 21 };

/// Slices of products are of whole panels of rows.
const ROWS: usize = 64;

/// The least iterations of a slice of sums: from this number on, what a loop costs does not depend on its length, and neither does the order
/// of the loops (see `order.rs`).
const SUMS: usize = 513;

/// One loop of a leaf, cut into iterations that take some milliseconds while something is on its way: what comes when nobody looks
/// stays in the buffers of the system. A loop that indexes the output is cut, and no slice is so thin that it would be computed in another
/// way than all, so that each element has the same bits.
///
/// ```
/// use polyshard::runtime::leaf::{Slices, SlicesOf};
/// let counts = [8192, 512, 64]; // of the loops of a product
/// let mut slices = Slices::new(&counts, 0, SlicesOf::Panels);
/// assert_eq!(slices.next(true), Some(0..2048)); // something is on its way
/// assert_eq!(slices.next(false), Some(2048..8192)); // all is here
/// assert_eq!(slices.next(false), None);
/// ```
#[derive(Clone, Debug)]
pub struct Slices {
    next: usize,
    count: usize,
    each: usize,
    /// The least iterations that are left when a slice ends, if any are.
    least: usize,
}

impl Slices {
    /// Returns the slices along one of the loops with these numbers of iterations.
    ///
    /// # Panics
    /// If there is no such loop.
    #[must_use]
    pub fn new(counts: &[usize], along: usize, of: SlicesOf) -> Self {
        let others = counts.iter().enumerate().filter(|(nth, _)| *nth != along);
        let row = others.fold(1, |all: usize, (_, &count)| all.saturating_mul(count)).max(1);
        let (points, least) = match of {
            SlicesOf::Panels => (MULTIPLICATIONS, gemm::least_rows().next_multiple_of(ROWS)),
            SlicesOf::Batch => (MULTIPLICATIONS, 1),
            SlicesOf::Values => (POINTS, 1),
            SlicesOf::Sums => (POINTS, SUMS),
        };
        let each = (points / row).max(least);
        let each = if of == SlicesOf::Panels { each.next_multiple_of(ROWS) } else { each };
        Self { next: 0, count: counts[along], each, least }
    }

    /// Returns the next iterations, all that are left if nothing is on its way; none at the end.
    pub fn next(&mut self, is_coming: bool) -> Option<Range<usize>> {
        let start = self.next;
        let left = self.count - start;
        let len = if is_coming && left >= self.each + self.least { self.each } else { left };
        self.next += len;
        (len > 0).then_some(start..start + len)
    }
}
