//! Slices of a leaf, between which transfers are polled.

use super::gemm;
use polyshard_program::SlicesOf;
use std::ops::Range;

/// Multiplications in a slice of a matrix product, which take some milliseconds.
const MULTIPLICATIONS: usize = if cfg!(test) { 1 } else { 1 << 26 };

/// Points in a slice of a nest, which take as long.
const POINTS: usize = if cfg!(test) { 1 } else { 1 << 21 };

/// Slices of products consist of whole panels of rows.
const ROWS: usize = 64;

/// The minimum iterations of a slice of sums: from this number, the cost that the order of the loops depends on does not change with the
/// length of the loop, and so neither does the order (see `order.rs`).
const SUMS: usize = 513;

/// One loop of a leaf, cut into slices that take some milliseconds each while transfers are in flight: data that arrives between polls
/// stays in the system's buffers. The loop indexes the output, and no slice is so thin that it would be computed in another way than the
/// whole, so that each element has the same bits.
#[derive(Clone, Debug)]
pub struct Slices {
    next: usize,
    count: usize,
    each: usize,
    /// The minimum iterations that are left when a slice ends, unless none are.
    least: usize,
}

impl Slices {
    /// Returns the slices along one of the loops with these numbers of iterations.
    ///
    /// # Panics
    /// If there is no such loop.
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

    /// Returns the next iterations, all remaining ones if nothing is in flight; `None` at the end.
    pub fn next(&mut self, is_coming: bool) -> Option<Range<usize>> {
        let start = self.next;
        let left = self.count - start;
        let len = if is_coming && left >= self.each + self.least { self.each } else { left };
        self.next += len;
        (len > 0).then_some(start..start + len)
    }
}
