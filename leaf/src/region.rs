//! Regions: boxes of global indices.
//!
//! Transfers move regions, and tiles hold them. A region is half-open along each dimension, or has blocks at equal distances. It does not
//! state which rank owns it or where it is stored.

use polyshard_layout::{Along, joined};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::ops::Range;

/// The data of a region per dimension; up to four dimensions need no allocation.
type PerDim<T> = SmallVec<[T; 4]>;

/// A box of global indices: one half-open range per dimension.
///
/// ```
/// use polyshard::runtime::Region;
/// let tile = Region::new([4..8, 0..3]);
/// assert_eq!(tile.len(), 12);
/// assert_eq!(tile.to_string(), "[4..8, 0..3]");
/// assert!(Region::new([4..4, 0..3]).is_empty());
/// assert_eq!(Region::new([]).len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    dims: PerDim<Along>,
    nothing: bool,
}

impl Region {
    /// Returns the region with these ranges; one that ends before it starts is empty.
    ///
    /// With no ranges it is the region of a 0-dimensional array, which has one element.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Range<i64>>) -> Self {
        Self { dims: ranges.into_iter().map(Along::new).collect(), nothing: false }
    }

    /// Returns the region in which index `i` of dimension `dim` refers to the element `i mod period`, so that its range may begin below 0
    /// and exceed the end, any number of times.
    ///
    /// ```
    /// use polyshard::runtime::Region;
    /// let around = Region::new([-1..3, 0..2]).periodic(0, 8);
    /// assert_eq!(around.to_string(), "[(-1..3) % 8, 0..2]");
    /// assert_eq!(around.len(), 8);
    /// ```
    ///
    /// # Panics
    /// If there is no such dimension, or `period` is not positive.
    #[must_use]
    pub fn periodic(mut self, dim: usize, period: i64) -> Self {
        assert!(period > 0, "a region with a period of {period}; this is a bug in polyshard");
        assert!(
            self.blocks(dim).is_none(),
            "{self} has blocks and a period in one dimension; this is a bug in polyshard"
        );
        self.dims[dim] = self.dims[dim].periodic(period);
        self
    }

    /// Returns the region with, along dimension `dim`, the first `size` of every `step` indices of its range: a rank's part of a loop that
    /// is distributed block-cyclically. It is empty if `size` is not positive.
    ///
    /// ```
    /// use polyshard::runtime::Region;
    /// let blocks = Region::new([4..21, 0..2]).in_blocks(0, 4, 16);
    /// assert_eq!(blocks.to_string(), "[4..21 by blocks of 4 every 16, 0..2]");
    /// assert_eq!(blocks.shape(), [5, 2]); // 4, 5, 6, 7 and 20
    /// ```
    ///
    /// # Panics
    /// If there is no such dimension, it wraps, or `step` is not positive.
    #[must_use]
    pub fn in_blocks(mut self, dim: usize, size: i64, step: i64) -> Self {
        assert!(
            self.period(dim).is_none(),
            "{self} has a period and blocks in one dimension; this is a bug in polyshard"
        );
        self.dims[dim] = self.dims[dim].in_blocks(size, step);
        self
    }

    /// Returns a region of `ndim` dimensions that holds nothing, not even for `ndim` 0.
    #[must_use]
    pub fn empty(ndim: usize) -> Self {
        Self { dims: smallvec![Along::new(0..0); ndim], nothing: true }
    }

    /// Returns all of an array of `shape`.
    #[must_use]
    pub fn whole(shape: &[usize]) -> Self {
        Self::new(shape.iter().map(|&extent| 0..i64::try_from(extent).unwrap_or(i64::MAX)))
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.dims.len()
    }

    /// Returns the range of dimension `dim`, which includes the gaps between [blocks](Self::blocks).
    #[must_use]
    pub fn range(&self, dim: usize) -> Range<i64> {
        self.dims[dim].range()
    }

    /// Returns the period after which the indices of dimension `dim` start again from 0, if they do.
    #[must_use]
    pub fn period(&self, dim: usize) -> Option<i64> {
        self.dims[dim].period()
    }

    /// Returns the size of the blocks of dimension `dim` and the distance from one to the next, if it has several.
    #[must_use]
    pub fn blocks(&self, dim: usize) -> Option<(i64, i64)> {
        self.dims[dim].blocks()
    }

    /// Whether it has gaps in some dimension.
    #[doc(hidden)]
    pub fn has_blocks(&self) -> bool {
        (0..self.ndim()).any(|dim| self.blocks(dim).is_some())
    }

    /// The consecutive indices of a dimension, in order, and the position of the first of them.
    #[doc(hidden)]
    pub fn runs(&self, dim: usize) -> impl Iterator<Item = (Range<i64>, usize)> {
        self.dims[dim].runs()
    }

    /// Whether it exceeds an end of its array, and continues at the other end.
    #[doc(hidden)]
    pub fn wraps(&self) -> bool {
        !self.is_empty() && self.dims.iter().any(Along::wraps)
    }

    /// The number of distinct elements, which is less than [`len`](Self::len) if it wraps around more than once.
    #[doc(hidden)]
    pub fn distinct(&self) -> usize {
        if self.nothing { 0 } else { self.dims.iter().map(|along| along.distinct() as usize).product() }
    }

    /// Returns the global index of the first element.
    #[must_use]
    pub fn start(&self) -> Vec<i64> {
        self.origin().to_vec()
    }

    /// The same, without an allocation for a few dimensions.
    #[doc(hidden)]
    pub fn origin(&self) -> Strides {
        self.dims.iter().map(|along| along.range().start).collect()
    }

    /// The strides of the region where it is dense and row-major, without the gaps between blocks.
    #[doc(hidden)]
    pub fn strides(&self) -> Strides {
        let shape: SmallVec<[usize; 6]> = (0..self.ndim()).map(|dim| self.length(dim)).collect();
        strides(&shape)
    }

    /// Returns the extent of each dimension, in elements, without the gaps between blocks.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        (0..self.ndim()).map(|dim| self.length(dim)).collect()
    }

    fn length(&self, dim: usize) -> usize {
        self.dims[dim].count() as usize
    }

    /// Returns the number of elements; `usize::MAX` if there are more, which fit in no memory.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.nothing { 0 } else { (0..self.ndim()).map(|dim| self.length(dim)).fold(1, usize::saturating_mul) }
    }

    /// Returns whether it holds no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nothing || self.dims.iter().any(Along::is_empty)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nothing {
            return f.write_str("nothing");
        }
        let shown = |along: &Along| {
            let Range { start, end } = along.range();
            match (along.period(), along.blocks()) {
                (None, None) => format!("{start}..{end}"),
                (Some(period), _) => format!("({start}..{end}) % {period}"),
                (_, Some((size, step))) => format!("{start}..{end} by blocks of {size} every {step}"),
            }
        };
        write!(f, "[{}]", joined(self.dims.iter().map(shown), ", "))
    }
}

/// One number per dimension, or per loop of a leaf; a few need no allocation.
pub type Strides = SmallVec<[i64; 6]>;

/// Returns the [`row_major`] strides as signed numbers, for indices that may be negative.
pub fn strides(shape: &[usize]) -> Strides {
    row_major(shape).into_iter().map(|stride| stride as i64).collect()
}

/// Returns the strides, in elements, of a dense row-major array of `shape`.
pub fn row_major(shape: &[usize]) -> SmallVec<[usize; 6]> {
    let mut strides = smallvec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
