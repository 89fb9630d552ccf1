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
    /// Where indices start again from 0, per dimension; 0 where they do not.
    periods: Vec<i64>,
    nothing: bool,
}

impl Region {
    /// Returns the region with these ranges; one that ends before it starts is empty.
    ///
    /// With no ranges it is the region of a 0-dimensional array, which has one element.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Range<i64>>) -> Self {
        let ranges: Vec<_> = ranges.into_iter().map(|range| range.start..range.end.max(range.start)).collect();
        Self { periods: vec![0; ranges.len()], ranges, nothing: false }
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
        self.periods[dim] = period;
        self
    }

    /// Returns a region of `ndim` dimensions that holds nothing, not even for `ndim` 0.
    #[must_use]
    pub fn empty(ndim: usize) -> Self {
        Self { ranges: vec![0..0; ndim], periods: vec![0; ndim], nothing: true }
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

    /// Returns where the indices of dimension `dim` start again from 0, if they do.
    #[must_use]
    pub fn period(&self, dim: usize) -> Option<i64> {
        Some(self.periods[dim]).filter(|&period| period > 0)
    }

    /// Whether it goes beyond an end of its array, to begin again at the other.
    pub(crate) fn wraps(&self) -> bool {
        let beyond = |(range, &period): (&Range<i64>, &i64)| period > 0 && (range.start < 0 || range.end > period);
        !self.is_empty() && self.ranges.iter().zip(&self.periods).any(beyond)
    }

    /// The number of different elements, which is less than [`len`](Self::len) where it goes round more than once.
    pub(crate) fn distinct(&self) -> usize {
        let of = |(range, &period): (&Range<i64>, &i64)| {
            let len = range.end - range.start;
            (if period > 0 { len.min(period) } else { len }) as usize
        };
        if self.nothing { 0 } else { self.ranges.iter().zip(&self.periods).map(of).product() }
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
    /// If the numbers of dimensions differ, or one of the regions goes round the end of its array.
    #[track_caller]
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        assert!(self.ndim() == other.ndim(), "{self} and {other} have different numbers of dimensions");
        assert!(!self.wraps() && !other.wraps(), "{self} and {other} may meet in several places");
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
        let shown = |(range, &period): (&Range<i64>, &i64)| match period {
            0 => format!("{}..{}", range.start, range.end),
            _ => format!("({}..{}) % {period}", range.start, range.end),
        };
        let ranges: Vec<_> = self.ranges.iter().zip(&self.periods).map(shown).collect();
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
        assert_eq!(Region::new(std::iter::once(i64::MIN..i64::MAX)).shape(), [usize::MAX]);
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
