//! Where the bytes of a non-contiguous message are in a buffer.

use std::ops::Range;

/// Bytes of a buffer in an order: nested runs of indices, as in MPI's derived datatypes (MPI 3.1, section 4.1.2).
///
/// ```text
/// rows 2..4 of an array of 3 bytes a row, without the last column:    [ 2..4, 3 ] [ 0..2, 1 ]
/// . . .
/// . . .
/// a b .
/// c d .                                                               a b c d
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Outermost first; no levels, no bytes.
    pub levels: Vec<LayoutLevel>,
}

/// One level of a [`Layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutLevel {
    /// The indices, in order.
    pub runs: Vec<Range<usize>>,
    /// The bytes from one index to the next; at the innermost level, each index covers all of them.
    pub stride: usize,
}

impl Layout {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let counts = self.levels.iter().map(|level| level.runs.iter().map(ExactSizeIterator::len).sum::<usize>());
        self.levels.last().map_or(0, |last| last.stride * counts.product::<usize>())
    }

    /// Returns the end of the last byte, relative to the start of the buffer.
    #[must_use]
    pub fn end(&self) -> usize {
        let last = |level: &LayoutLevel| level.runs.iter().map(|run| run.end).max().unwrap_or(0);
        match &self.levels[..] {
            [] => 0,
            [outer @ .., inner] => {
                let before = |level| usize::saturating_sub(last(level), 1) * level.stride;
                outer.iter().map(before).sum::<usize>() + last(inner) * inner.stride
            }
        }
    }
}
