//! Regions: boxes of global indices.
//!
//! What a transfer moves and what a tile holds is a region, half-open along each dimension, or of blocks at equal
//! distances. A region says nothing of who owns it or where it is stored.

use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::ops::Range;

/// What a region has per dimension: of arrays of four dimensions and fewer, it takes no memory of its own.
type PerDim<T> = SmallVec<[T; 4]>;

/// A box of global indices: one half-open range per dimension.
///
/// ```
/// use polyshard_runtime::Region;
/// let tile = Region::new([4..8, 0..3]);
/// assert_eq!(tile.len(), 12);
/// assert_eq!(tile.to_string(), "[4..8, 0..3]");
/// assert!(Region::new([4..4, 0..3]).is_empty());
/// assert_eq!(Region::new([]).len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    ranges: PerDim<Range<i64>>,
    /// Where indices start again from 0, per dimension; 0 where they do not.
    periods: PerDim<i64>,
    /// The size of blocks and their distance, per dimension; both 0 where the range is one block.
    blocks: PerDim<(i64, i64)>,
    nothing: bool,
}

impl Region {
    /// Returns the region with these ranges; one that ends before it starts is empty.
    ///
    /// With no ranges it is the region of a 0-dimensional array, which has one element.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Range<i64>>) -> Self {
        let ranges: PerDim<_> = ranges.into_iter().map(|range| range.start..range.end.max(range.start)).collect();
        Self { periods: smallvec![0; ranges.len()], blocks: smallvec![(0, 0); ranges.len()], ranges, nothing: false }
    }

    /// Returns the region in which index `i` of dimension `dim` means the element `i mod period`, so that its range
    /// may begin below 0 and go on beyond the end, round and round.
    ///
    /// ```
    /// use polyshard_runtime::Region;
    /// let around = Region::new([-1..3, 0..2]).periodic(0, 8);
    /// assert_eq!(around.to_string(), "[(-1..3) % 8, 0..2]");
    /// assert_eq!(around.len(), 8);
    /// ```
    ///
    /// # Panics
    /// If there is no such dimension, or `period` is not positive.
    #[must_use]
    pub fn periodic(mut self, dim: usize, period: i64) -> Self {
        assert!(period > 0, "a region with a period of {period}; this is a bug of polyshard");
        assert!(self.blocks[dim].1 == 0, "{self} has blocks and a period in one dimension; this is a bug of polyshard");
        self.periods[dim] = period;
        self
    }

    /// Returns the region that has, of dimension `dim`, the first `size` of every `step` indices of its range: what a rank
    /// has of a loop that is distributed block-cyclically. None if `size` is not positive.
    ///
    /// ```
    /// use polyshard_runtime::Region;
    /// let blocks = Region::new([4..21, 0..2]).in_blocks(0, 4, 16);
    /// assert_eq!(blocks.to_string(), "[4..21 by blocks of 4 every 16, 0..2]");
    /// assert_eq!(blocks.shape(), [5, 2]); // 4, 5, 6, 7 and 20
    /// ```
    ///
    /// # Panics
    /// If there is no such dimension, it wraps, or `step` is not positive.
    #[must_use]
    pub fn in_blocks(mut self, dim: usize, size: i64, step: i64) -> Self {
        assert!(step > 0, "a region of blocks at a distance of {step}; this is a bug of polyshard");
        assert!(self.periods[dim] == 0, "{self} has a period and blocks in one dimension; this is a bug of polyshard");
        let range = &mut self.ranges[dim];
        if size <= 0 {
            range.end = range.start;
            return self;
        }
        let len = range.end - range.start;
        // A region is written in one way, so that equal regions are equal: it ends with its last block.
        if size < step && len > size {
            range.end = range.end.min(range.start + (len - 1) / step * step + size);
            if range.end - range.start > size {
                self.blocks[dim] = (size, step);
            }
        }
        self
    }

    /// Returns a region of `ndim` dimensions that holds nothing, not even for `ndim` 0.
    #[must_use]
    pub fn empty(ndim: usize) -> Self {
        Self {
            ranges: smallvec![0..0; ndim],
            periods: smallvec![0; ndim],
            blocks: smallvec![(0, 0); ndim],
            nothing: true,
        }
    }

    /// Returns all of an array of `shape`.
    #[must_use]
    pub fn whole(shape: &[usize]) -> Self {
        Self::new(shape.iter().map(|&extent| 0..i64::try_from(extent).unwrap_or(i64::MAX)))
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the range of each dimension, which holds the gaps between [blocks](Self::blocks) too.
    #[must_use]
    pub fn ranges(&self) -> &[Range<i64>] {
        &self.ranges
    }

    /// Returns where the indices of dimension `dim` start again from 0, if they do.
    #[must_use]
    pub fn period(&self, dim: usize) -> Option<i64> {
        Some(self.periods[dim]).filter(|&period| period > 0)
    }

    /// Returns the size of the blocks of dimension `dim` and the distance from one to the next, if it has several.
    #[must_use]
    pub fn blocks(&self, dim: usize) -> Option<(i64, i64)> {
        Some(self.blocks[dim]).filter(|&(_, step)| step > 0)
    }

    /// Whether it has gaps in some dimension.
    pub(crate) fn has_blocks(&self) -> bool {
        (0..self.ndim()).any(|dim| self.blocks(dim).is_some())
    }

    /// The consecutive indices of a dimension, in order, and the position of the first of them.
    pub(crate) fn runs(&self, dim: usize) -> impl Iterator<Item = (Range<i64>, usize)> {
        let range = self.ranges[dim].clone();
        let (size, step) = self.blocks(dim).unwrap_or((range.end - range.start, i64::MAX));
        let starts = std::iter::successors(Some(range.start), move |start| start.checked_add(step));
        let starts = starts.take_while(move |&start| start < range.end);
        starts.enumerate().map(move |(n, start)| (start..range.end.min(start.saturating_add(size)), n * size as usize))
    }

    /// Whether it goes beyond an end of its array, to begin again at the other.
    pub(crate) fn wraps(&self) -> bool {
        let beyond = |(range, &period): (&Range<i64>, &i64)| period > 0 && (range.start < 0 || range.end > period);
        !self.is_empty() && self.ranges.iter().zip(&self.periods).any(beyond)
    }

    /// The number of different elements, which is less than [`len`](Self::len) where it goes round more than once.
    pub(crate) fn distinct(&self) -> usize {
        let of = |dim: usize| {
            let len = self.length(dim);
            self.period(dim).map_or(len, |period| len.min(period as usize))
        };
        if self.nothing { 0 } else { (0..self.ndim()).map(of).product() }
    }

    /// Returns the global index of the first element.
    #[must_use]
    pub fn start(&self) -> Vec<i64> {
        self.origin().to_vec()
    }

    /// The same, which needs no memory of its own.
    pub(crate) fn origin(&self) -> Strides {
        self.ranges.iter().map(|range| range.start).collect()
    }

    /// The strides of the region where it is dense and row-major, without the gaps between blocks.
    pub(crate) fn strides(&self) -> Strides {
        let shape: SmallVec<[usize; 6]> = (0..self.ndim()).map(|dim| self.length(dim)).collect();
        strides(&shape)
    }

    /// Returns the extent of each dimension, in elements, without the gaps between blocks.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        (0..self.ndim()).map(|dim| self.length(dim)).collect()
    }

    fn length(&self, dim: usize) -> usize {
        let range = &self.ranges[dim];
        let len = range.end.abs_diff(range.start);
        let len = match self.blocks(dim) {
            None => len,
            Some((size, step)) => len / step as u64 * size as u64 + (len % step as u64).min(size as u64),
        };
        len as usize
    }

    /// Returns the number of elements; `usize::MAX` if there are more, which no memory holds.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.nothing { 0 } else { (0..self.ndim()).map(|dim| self.length(dim)).fold(1, usize::saturating_mul) }
    }

    /// Returns whether it holds no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nothing || self.ranges.iter().any(|range| range.start == range.end)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nothing {
            return f.write_str("nothing");
        }
        let shown = |(dim, Range { start, end }): (usize, &Range<i64>)| match (self.period(dim), self.blocks(dim)) {
            (None, None) => format!("{start}..{end}"),
            (Some(period), _) => format!("({start}..{end}) % {period}"),
            (_, Some((size, step))) => format!("{start}..{end} by blocks of {size} every {step}"),
        };
        let ranges: Vec<_> = self.ranges.iter().enumerate().map(shown).collect();
        write!(f, "[{}]", ranges.join(", "))
    }
}

/// One number per dimension, or per loop of a leaf; a few need no memory of their own.
pub(crate) type Strides = SmallVec<[i64; 6]>;

/// Returns the [`row_major`] strides, as they are added to indices that may be negative.
pub(crate) fn strides(shape: &[usize]) -> Strides {
    row_major(shape).into_iter().map(|stride| stride as i64).collect()
}

/// Returns the strides, in elements, of a dense row-major array of `shape`.
pub(crate) fn row_major(shape: &[usize]) -> SmallVec<[usize; 6]> {
    let mut strides = smallvec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_region_without_dimensions_holds_one_element_unless_it_is_empty() {
        assert_eq!(Region::new([]).len(), 1);
        assert_eq!(Region::new([]).shape(), Vec::<usize>::new());
        assert_eq!(Region::empty(0).len(), 0);
        assert!(Region::empty(0).is_empty() && !Region::new([]).is_empty());
    }

    #[test]
    fn lengths_beyond_what_can_be_counted_saturate() {
        assert_eq!(Region::whole(&[1 << 40, 1 << 40]).len(), usize::MAX);
        assert_eq!(Region::whole(&[1 << 40, 1 << 40, 0]).len(), 0);
        assert_eq!(Region::new(std::iter::once(i64::MIN..i64::MAX)).shape(), [usize::MAX]);
    }

    #[test]
    fn a_range_that_ends_before_it_starts_is_empty() {
        let region = Region::new([Range { start: 5, end: 2 }, 0..3]);
        assert_eq!((region.shape(), region.len()), (vec![0, 3], 0));
    }

    proptest! {
        /// Positions and runs agree, and equal sets of indices are equal regions.
        #[test]
        fn blocks_hold_their_indices_one_after_the_other(start in 0i64..5, len in 0i64..30, size in -2i64..6, step in 1i64..8) {
            let all: Vec<i64> = (0..len).filter(|i| i % step < size).map(|i| start + i).collect();
            let region = Region::new(std::iter::once(start..start + len)).in_blocks(0, size, step);
            prop_assert_eq!(region.len(), all.len());
            let listed: Vec<_> = region.runs(0).flat_map(|(run, at)| run.zip(at..)).collect();
            prop_assert_eq!(&listed, &all.iter().copied().zip(0..).collect::<Vec<_>>());
            if let (Some(&first), Some(&last)) = (all.first(), all.last()) {
                let tight = Region::new(std::iter::once(first..last + 1)).in_blocks(0, size, step);
                prop_assert_eq!(&tight, &region);
            }
        }
    }
}
