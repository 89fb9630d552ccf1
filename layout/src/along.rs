//! The indices that a box has along one dimension, as numbers.

use crate::Sharding;
use std::iter::successors;
use std::ops::Range;

/// The indices of a box along one dimension: a half-open range, optionally in equally spaced blocks, optionally of a periodic dimension.
/// Values with the same indices are equal.
///
/// ```
/// use polyshard::layout::Along;
/// let blocks = Along::new(4..21).in_blocks(4, 16);
/// assert_eq!((blocks.count(), blocks.range()), (5, 4..21)); // 4, 5, 6, 7 and 20
/// assert_eq!(blocks.elements(20).collect::<Vec<_>>(), [4..8]);
/// let around = Along::new(-1..3).periodic(8);
/// assert_eq!(around.elements(8).collect::<Vec<_>>(), [7..8, 0..3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Along {
    low: i64,
    high: i64,
    /// The period of the dimension; 0 if it is not periodic.
    period: i64,
    /// The block size and the stride between blocks; both 0 if the range is one block.
    blocks: (i64, i64),
}

impl Along {
    /// Returns the indices of a range, which are empty if it ends before it starts.
    #[must_use]
    pub fn new(range: Range<i64>) -> Self {
        Self { low: range.start, high: range.end.max(range.start), period: 0, blocks: (0, 0) }
    }

    /// Returns the same indices of a periodic dimension, in which index `i` means element `i mod period`, so the range may begin below 0
    /// and wrap around the end any number of times. If `period` is 0 or less, the dimension is not periodic.
    #[must_use]
    pub fn periodic(self, period: i64) -> Self {
        Self { period: period.max(0), ..self }
    }

    /// Returns the first `size` of every `step` indices; none if `size` is not positive.
    ///
    /// # Panics
    /// If `step` is not positive.
    #[must_use]
    pub fn in_blocks(mut self, size: i64, step: i64) -> Self {
        assert!(step > 0, "blocks at a distance of {step}; this is a bug in polyshard");
        if size <= 0 {
            return Self { high: self.low, ..self };
        }
        let len = self.high - self.low;
        // Canonical form, so that the same indices compare equal: the range ends with its last block, and a single block has no gaps.
        if size < step && len > size {
            self.high = self.high.min(self.low + (len - 1) / step * step + size);
            if self.high - self.low > size {
                self.blocks = (size, step);
            }
        }
        self
    }

    /// Returns the range, including the gaps between blocks.
    #[must_use]
    pub fn range(&self) -> Range<i64> {
        self.low..self.high
    }

    /// Returns the period, if the dimension is periodic.
    #[must_use]
    pub fn period(&self) -> Option<i64> {
        Some(self.period).filter(|&period| period > 0)
    }

    /// Returns the block size and the stride between blocks, if there are several.
    #[must_use]
    pub fn blocks(&self) -> Option<(i64, i64)> {
        Some(self.blocks).filter(|&(_, step)| step > 0)
    }

    /// Returns whether the range is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.low == self.high
    }

    /// Returns the number of indices.
    #[must_use]
    pub fn count(&self) -> u64 {
        let len = self.high.abs_diff(self.low);
        self.blocks().map_or(len, |(size, step)| {
            let (size, step) = (size as u64, step as u64);
            len / step * size + (len % step).min(size)
        })
    }

    /// Returns the number of distinct elements; in a periodic dimension, several indices may mean the same one.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.period().map_or(self.count(), |period| self.count().min(period as u64))
    }

    /// Returns whether the range wraps around an end of a periodic dimension.
    #[must_use]
    pub fn wraps(&self) -> bool {
        self.period().is_some_and(|period| !self.is_empty() && (self.low < 0 || self.high > period))
    }

    /// Returns the ranges of consecutive indices, in order, each with the number of indices before it.
    pub fn runs(&self) -> impl Iterator<Item = (Range<i64>, usize)> + use<> {
        let &Self { low, high, .. } = self;
        let (size, step) = self.blocks().unwrap_or((high.saturating_sub(low), i64::MAX));
        let starts = successors(Some(low), move |start| start.checked_add(step)).take_while(move |&start| start < high);
        starts.enumerate().map(move |(n, start)| (start..high.min(start.saturating_add(size)), n * size as usize))
    }

    /// Returns the ranges of consecutive elements in a dimension of `extent`, each element once; indices outside of it are skipped.
    pub fn elements(&self, extent: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let extent = extent as i64;
        let of_run = |(run, _): (Range<i64>, usize)| run;
        let whole = self.period().is_none().then(|| self.runs().map(of_run));
        let whole = whole.into_iter().flatten().map(move |run| run.start.max(0)..run.end.min(extent));
        let wrapped = self.period().map(|period| {
            // Beyond one period, blocks may overlap earlier ones.
            let goes_round = self.high - self.low > period;
            let runs = Self { blocks: if goes_round { (0, 0) } else { self.blocks }, ..*self }.runs().map(of_run);
            runs.flat_map(move |run| {
                let from = run.start.rem_euclid(period);
                let to = from + (run.end - run.start).min(period);
                [from..to.min(period), 0..to - period]
            })
        });
        let all = whole.chain(wrapped.into_iter().flatten());
        all.filter(|run| run.start < run.end).map(|run| run.start as usize..run.end as usize)
    }

    /// Returns whether this range, which must have no gaps, contains another one of the same dimension, which must not be periodic.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.low <= other.low && other.high <= self.high
    }
}

/// Returns the smallest and the largest index of a walk from `start` over loops with these strides and non-zero counts.
///
/// ```
/// assert_eq!(polyshard::layout::ends_of_walk(10, [(3, 4), (-1, 6)].into_iter()), (5, 19));
/// ```
#[must_use]
pub fn ends_of_walk(start: i128, loops: impl Iterator<Item = (i64, i64)>) -> (i128, i128) {
    loops.fold((start, start), |(least, greatest), (stride, count)| {
        let by = i128::from(stride) * (i128::from(count) - 1);
        (least + by.min(0), greatest + by.max(0))
    })
}

impl Sharding {
    /// Returns the number of elements of a box, given along each dimension, that the rank at these coordinates owns.
    ///
    /// ```
    /// use polyshard::layout::Along;
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let [x] = mesh.axes();
    /// let rows = Sharding::new(&mesh, &[8, 8], &[Placement::block(0, x)])?;
    /// let box_of = [Along::new(3..6), Along::new(0..8).in_blocks(1, 2)];
    /// assert_eq!([0, 1].map(|rank| rows.owned_of(&[rank], &box_of)), [4, 8]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn owned_of(&self, coordinates: &[usize], part: &[Along]) -> u64 {
        if !self.keeps(coordinates) {
            return 0;
        }
        let dims = self.dims().iter().zip(self.shape()).zip(part);
        let owned = dims.map(|((layout, &extent), along)| {
            let below = |end: usize| layout.owned_below(coordinates, end) as u64;
            along.elements(extent).map(|run| below(run.end) - below(run.start)).sum()
        });
        owned.fold(1, u64::saturating_mul)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_beyond_what_can_be_counted_are_counted() {
        assert_eq!(Along::new(i64::MIN..i64::MAX).count(), u64::MAX);
        assert!(Along::new(Range { start: 5, end: 2 }).is_empty());
    }

    proptest! {
        /// Positions and runs agree, and equal sets of indices are equal.
        #[test]
        fn blocks_hold_their_indices_one_after_the_other(start in -5i64..5, len in 0i64..30, size in -2i64..6, step in 1i64..8) {
            let all: Vec<i64> = (0..len).filter(|i| i % step < size).map(|i| start + i).collect();
            let blocks = Along::new(start..start + len).in_blocks(size, step);
            prop_assert_eq!(blocks.count(), all.len() as u64);
            let listed: Vec<_> = blocks.runs().flat_map(|(run, at)| run.zip(at..)).collect();
            prop_assert_eq!(&listed, &all.iter().copied().zip(0..).collect::<Vec<_>>());
            if let (Some(&first), Some(&last)) = (all.first(), all.last()) {
                prop_assert_eq!(Along::new(first..last + 1).in_blocks(size, step), blocks);
            }
        }

        /// `elements` returns the elements that the indices mean, each once.
        #[test]
        fn elements_are_what_indices_mean(
            low in -12i64..12, len in 0i64..30, size in 1i64..6, step in 1i64..8, extent in 1usize..12, is_periodic: bool,
        ) {
            let along = Along::new(low..low + len).in_blocks(size, step);
            let period = extent as i64;
            let mut expected: Vec<usize> = match is_periodic {
                // Beyond one period, blocks may overlap earlier ones.
                true if along.range().end - along.range().start > period => (0..extent).collect(),
                true => along.runs().flat_map(|(run, _)| run).map(|i| i.rem_euclid(period) as usize).collect(),
                false => along.runs().flat_map(|(run, _)| run).filter(|i| (0..period).contains(i)).map(|i| i as usize).collect(),
            };
            expected.sort_unstable();
            expected.dedup();
            let along = if is_periodic { along.periodic(period) } else { along };
            let mut found: Vec<usize> = along.elements(extent).flatten().collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
