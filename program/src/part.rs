//! Regions as numbers: what a box of indices is for one rank in one step, and what of it a rank owns.

use crate::bounds::LIMIT;
use crate::expr::Expr;
use crate::nest::Region;
use polyshard_layout::Sharding;
use std::ops::Range;

/// The indices of a region along one dimension, for one rank in one step; of which there is at least one. The same indices
/// are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    low: i64,
    high: i64,
    period: Option<i64>,
    /// The size of blocks and their distance, if it is larger.
    blocks: Option<(i64, i64)>,
}

impl Along {
    /// Returns the number of indices.
    #[must_use]
    pub fn count(&self) -> u64 {
        let length = self.high - self.low;
        let count = self.blocks.map_or(length, |(size, step)| length / step * size + (length % step).min(size));
        count as u64
    }

    /// Returns the number of different elements, of which those of a periodic dimension may have several indices.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.period.map_or(self.count(), |period| self.count().min(period as u64))
    }

    /// Whether a walk from an index stays inside, whose loops have these strides and counts, of which none is 0; each stays in
    /// one block, or goes from block to block.
    pub(crate) fn holds(&self, start: i64, loops: impl Iterator<Item = (i64, i64)> + Clone) -> bool {
        let within = |start: i128, low: i128, high: i128, goes: &dyn Fn(i64) -> bool| {
            let (least, most) = reach(start, loops.clone().filter(|(stride, _)| goes(*stride)));
            low <= least && most < high
        };
        let inside = within(start.into(), self.low.into(), self.high.into(), &|_| true);
        inside
            && self.blocks.is_none_or(|(size, step)| {
                let at = (i128::from(start) - i128::from(self.low)).rem_euclid(step.into());
                within(at, 0, size.into(), &|stride| stride % step != 0)
            })
    }

    /// Whether all from one index to another are inside.
    pub(crate) fn spans(&self, least: i128, most: i128) -> bool {
        i128::from(self.low) <= least && most < i128::from(self.high) && self.blocks.is_none()
    }

    /// The same dimension around a walk as [`holds`](Self::holds) takes it: what it goes without a gap is a block, and from there on it
    /// goes from block to block.
    pub(crate) fn around(&self, start: i64, loops: impl Iterator<Item = (i64, i64)>) -> Self {
        let mut loops: Vec<_> = loops.map(|(stride, count)| (i128::from(stride), i128::from(count) - 1)).collect();
        loops.retain(|&(stride, turns)| stride != 0 && turns > 0);
        loops.sort_unstable_by_key(|(stride, _)| stride.abs());
        let (mut least, mut most) = (i128::from(start), i128::from(start) + 1);
        let (mut size, mut step) = (1, None);
        for (stride, turns) in loops {
            let by = stride * turns;
            (least, most) = (least + by.min(0), most + by.max(0));
            match step {
                None if stride.abs() <= size => size += by.abs(),
                None => step = Some(stride.abs()),
                // Blocks at several distances have all between them.
                Some(between) if stride % between != 0 => size = between,
                Some(_) => {}
            }
        }
        let [low, high, size] = [least, most, size].map(|at| at.clamp(-2 * LIMIT, 2 * LIMIT) as i64);
        let step = step.map(|step: i128| step.min(LIMIT) as i64);
        let blocks = step.filter(|&step| size < step && high - low > size).map(|step| (size, step));
        Self { low, high, period: self.period, blocks }
    }

    /// Returns the ranges of consecutive indices.
    fn runs(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let &Self { low, high, blocks, .. } = self;
        let (size, step) = blocks.unwrap_or((high - low, i64::MAX));
        let starts = std::iter::successors(Some(low), move |start| start.checked_add(step));
        let starts = starts.take_while(move |&start| start < high);
        starts.map(move |start| (start, start.saturating_add(size).min(high)))
    }

    /// Returns the ranges of consecutive elements of a dimension of this many, each element once; what is outside is left out.
    pub fn elements(&self, extent: usize) -> impl Iterator<Item = Range<usize>> {
        let extent = extent as i64;
        let whole = self.period.is_none().then(|| self.runs().map(move |(low, high)| (low.max(0), high.min(extent))));
        let wrapped = self.period.map(|period| {
            // Blocks that go round more than once meet others.
            let goes_round = self.high - self.low > period;
            let runs = Self { blocks: self.blocks.filter(|_| !goes_round), ..*self }.runs();
            runs.flat_map(move |(low, high)| {
                let from = low.rem_euclid(period);
                let to = from + (high - low).min(period);
                [(from, to.min(period)), (0, (to - period).max(0))]
            })
        });
        let all = whole.into_iter().flatten().chain(wrapped.into_iter().flatten());
        all.filter(|(low, high)| low < high).map(|(low, high)| low as usize..high as usize)
    }

    /// Whether all indices of another range of the same dimension, which is not periodic, are in this one, which has no gaps.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.low <= other.low && other.high <= self.high
    }
}

/// The least and the most index of a walk from `start`, whose loops have these strides and counts.
pub(crate) fn reach(start: i128, loops: impl Iterator<Item = (i64, i64)>) -> (i128, i128) {
    loops.fold((start, start), |(least, most), (stride, count)| {
        let by = i128::from(stride) * (i128::from(count) - 1);
        (least + by.min(0), most + by.max(0))
    })
}

impl Region {
    /// Returns the indices along each dimension for the rank at these coordinates, where the loops have these counters;
    /// none if the region is empty there.
    ///
    /// ```
    /// # use polyshard_dsl::*;
    /// # use polyshard_layout::Mesh;
    /// # use polyshard_polyhedral::*;
    /// # use polyshard_program::example;
    /// # let matmul = Schedule::from_spec(example::matmul(10, 8, 6));
    /// let program = matmul.distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 4)])).lower()?;
    /// let rows = |rank: i64| program.nest().output().region.at(&[rank], &[]).map(|part| part[0].count());
    /// assert_eq!([0, 1, 2, 3].map(rows), [Some(3), Some(3), Some(3), Some(1)]);
    /// # Ok::<(), LowerError>(())
    /// ```
    #[must_use]
    pub fn at(&self, coordinates: &[i64], counters: &[i64]) -> Option<Vec<Along>> {
        let at = |expr: &Expr| expr.eval(coordinates, counters);
        if self.when.iter().any(|(a, b)| at(a) >= at(b)) {
            return None;
        }
        let dims = self.ranges.iter().zip(self.periods.iter().zip(&self.blocks));
        let dims = dims.map(|((low, high), (&period, blocks))| {
            let (low, mut high) = (at(low), at(high));
            let mut blocks = blocks.as_ref().map(|blocks| (at(&blocks.size).max(0), blocks.stride));
            if let Some((size, stride)) = blocks {
                // The last block may end before the range does, and one alone has no gaps.
                high -= ((high - low).max(0) % stride - size).max(0);
                blocks = blocks.filter(|_| size < stride && high - low > size);
            }
            let along = Along { low, high, period, blocks };
            (low < high && along.count() > 0).then_some(along)
        });
        dims.collect()
    }
}

/// The elements that the rank at these coordinates owns of a part of an array.
#[must_use]
pub fn owned(sharding: &Sharding, coordinates: &[usize], part: &[Along]) -> u64 {
    if !sharding.keeps(coordinates) {
        return 0;
    }
    let dims = sharding.dims().iter().zip(sharding.shape()).zip(part);
    let owned = dims.map(|((layout, &extent), along)| {
        let below = |end: usize| layout.owned_below(coordinates, end) as u64;
        along.elements(extent).map(|run| below(run.end) - below(run.start)).sum()
    });
    owned.fold(1, u64::saturating_mul)
}
