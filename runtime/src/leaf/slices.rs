//! Slices of a leaf: messages go on between them.

use std::ops::Range;

/// Multiplications of a slice of a product of matrices, which take some milliseconds.
const MULTIPLICATIONS: usize = 1 << 26;

/// Points of a slice of a nest, which take as long.
const POINTS: usize = 1 << 21;

/// Slices of products are of whole panels of rows.
const ROWS: usize = 64;

/// One loop of a leaf, cut into iterations that take some milliseconds while something is on its way: what comes when nobody looks
/// stays in the buffers of the system. A loop that indexes the output is cut, so that each element is computed as it would be at once.
///
/// ```
/// use polyshard_runtime::leaf::Slices;
/// let counts = [4096, 512, 512]; // of the loops of a product
/// let mut slices = Slices::new(&counts, 0, true);
/// assert_eq!(slices.next(true), Some(0..256)); // something is on its way
/// assert_eq!(slices.next(false), Some(256..4096)); // all is here
/// assert_eq!(slices.next(false), None);
/// ```
#[derive(Clone, Debug)]
pub struct Slices {
    next: usize,
    count: usize,
    each: usize,
}

impl Slices {
    /// Returns the slices along one of the loops with these numbers of iterations.
    ///
    /// # Panics
    /// If there is no such loop.
    #[must_use]
    pub fn new(counts: &[usize], along: usize, is_product: bool) -> Self {
        let others = counts.iter().enumerate().filter(|(nth, _)| *nth != along);
        let row = others.fold(1, |all: usize, (_, &count)| all.saturating_mul(count)).max(1);
        let each = match is_product {
            true => (MULTIPLICATIONS / row).max(1).next_multiple_of(ROWS),
            false => (POINTS / row).max(1),
        };
        Self { next: 0, count: counts[along], each }
    }

    /// Returns the next iterations, all that are left if nothing is on its way; none at the end.
    pub fn next(&mut self, is_coming: bool) -> Option<Range<usize>> {
        let start = self.next;
        let left = self.count - start;
        let len = if is_coming { left.min(self.each) } else { left };
        self.next += len;
        (len > 0).then_some(start..start + len)
    }
}
