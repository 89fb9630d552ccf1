//! Regions: boxes of global indices.
//!
//! What a transfer moves and what a tile holds is a region, half-open along each dimension. A region says
//! nothing of who owns it or where it is stored.

use std::fmt;
use std::ops::Range;

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
    ranges: Vec<Range<i64>>,
    nothing: bool,
}

impl Region {
    /// Returns the region with these ranges; one that ends before it starts is empty.
    ///
    /// With no ranges it is the region of a 0-dimensional array, which has one element.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Range<i64>>) -> Self {
        let ranges = ranges.into_iter().map(|range| range.start..range.end.max(range.start)).collect();
        Self { ranges, nothing: false }
    }

    /// Returns a region of `ndim` dimensions that holds nothing, not even for `ndim` 0.
    #[must_use]
    pub fn empty(ndim: usize) -> Self {
        Self { ranges: vec![0..0; ndim], nothing: true }
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

    /// Returns the range of each dimension.
    #[must_use]
    pub fn ranges(&self) -> &[Range<i64>] {
        &self.ranges
    }

    /// Returns the global index of the first element.
    #[must_use]
    pub fn start(&self) -> Vec<i64> {
        self.ranges.iter().map(|range| range.start).collect()
    }

    /// Returns the extent of each dimension, in elements.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.ranges.iter().map(length).collect()
    }

    /// Returns the number of elements; `usize::MAX` if there are more, which no memory holds.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.nothing { 0 } else { self.ranges.iter().map(length).fold(1, usize::saturating_mul) }
    }

    /// Returns whether it holds no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nothing || self.ranges.iter().any(|range| range.start == range.end)
    }

    /// Returns the elements that both regions hold.
    ///
    /// # Panics
    /// If the numbers of dimensions differ.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        assert_eq!(self.ndim(), other.ndim(), "{self} and {other} have different numbers of dimensions");
        let both = self.ranges.iter().zip(&other.ranges);
        let region = Self::new(both.map(|(a, b)| a.start.max(b.start)..a.end.min(b.end)));
        Self { nothing: self.nothing || other.nothing, ..region }
    }
}

fn length(range: &Range<i64>) -> usize {
    range.end.abs_diff(range.start) as usize
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nothing {
            return f.write_str("nothing");
        }
        let ranges: Vec<_> = self.ranges.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
        write!(f, "[{}]", ranges.join(", "))
    }
}

/// Returns the strides, in elements, of a dense row-major array of `shape`.
pub(crate) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
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
        assert!(Region::new([]).intersection(&Region::empty(0)).is_empty());
    }

    #[test]
    fn lengths_beyond_what_can_be_counted_saturate() {
        assert_eq!(Region::whole(&[1 << 40, 1 << 40]).len(), usize::MAX);
        assert_eq!(Region::whole(&[1 << 40, 1 << 40, 0]).len(), 0);
        assert_eq!(Region::new([i64::MIN..i64::MAX]).shape(), [usize::MAX]);
    }

    #[test]
    fn a_range_that_ends_before_it_starts_is_empty() {
        let region = Region::new([Range { start: 5, end: 2 }, 0..3]);
        assert_eq!((region.shape(), region.len()), (vec![0, 3], 0));
    }

    proptest! {
        /// An index is in the intersection exactly when it is in both.
        #[test]
        fn intersections_hold_what_both_hold(a in (0i64..9, 0i64..9), b in (0i64..9, 0i64..9)) {
            let both = Region::new([a.0..a.1, 0..4]).intersection(&Region::new([b.0..b.1, 2..6]));
            let held: Vec<_> = (0..9).filter(|i| (a.0..a.1).contains(i) && (b.0..b.1).contains(i)).collect();
            prop_assert_eq!(both.len(), 2 * held.len());
            prop_assert_eq!(both.ranges()[0].clone().collect::<Vec<_>>(), held);
        }
    }
}
