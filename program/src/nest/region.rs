//! Regions: the boxes of global indices that transfers move and tiles hold.

use crate::expr::{Expr, Ranges, Symbol};
use crate::ids::AxisId;
use serde::{Deserialize, Serialize};

/// A box of global indices that varies with coordinates and counters, perhaps with evenly spaced gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// A half-open range per dimension; the box is empty if one is.
    pub ranges: Vec<(Expr, Expr)>,
    /// The box is nonempty only if `low < high` for each pair.
    pub when: Vec<(Expr, Expr)>,
    /// Per dimension, the period at which indices wrap to 0, if they do: then the range may begin below 0 and extend
    /// beyond the end, and index `i` of it is element `i mod period`.
    pub periods: Vec<Option<i64>>,
    /// Per dimension, the blocks of the range that are in the box, if not all of it. Such a range does not wrap.
    pub blocks: Vec<Option<Blocks>>,
}

/// The first `size` of every `stride` indices of a range: the blocks of a loop that is distributed block-cyclically.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocks {
    /// The indices of a block, at most `stride`; none if it is not positive.
    pub size: Expr,
    /// The distance from one block to the next.
    pub stride: i64,
}

impl Blocks {
    /// Blocks with gaps between them; none if there are no gaps.
    pub fn new(size: Expr, stride: i64) -> Option<Self> {
        let no_gaps = size.as_constant().is_some_and(|size| size >= stride);
        (!no_gaps).then_some(Self { size, stride })
    }

    /// Evenly spaced points; none if their distance is 1.
    pub fn points(stride: i64) -> Option<Self> {
        Self::new(Expr::constant(1), stride)
    }

    /// Returns how many of `length` indices from the start of a block are in blocks of `size`.
    #[must_use]
    pub fn count(&self, length: i64, size: i64) -> i64 {
        let (length, size) = (length.max(0), size.clamp(0, self.stride));
        length / self.stride * size + (length % self.stride).min(size)
    }

    /// The blocks with each expression replaced.
    pub fn map(&self, replace: impl Fn(&Expr) -> Expr) -> Option<Self> {
        Self::new(replace(&self.size), self.stride)
    }
}

impl Region {
    /// Returns whether `symbol` occurs.
    #[must_use]
    pub fn mentions(&self, symbol: Symbol) -> bool {
        let sized = self.blocks.iter().flatten().any(|blocks| blocks.size.mentions(symbol));
        sized || self.ranges.iter().chain(&self.when).any(|(a, b)| a.mentions(symbol) || b.mentions(symbol))
    }

    /// Returns the largest extents that the box ever has.
    #[must_use]
    pub fn max_extents(&self, ranges: &Ranges) -> Vec<i64> {
        let dims = self.ranges.iter().zip(&self.blocks);
        dims.map(|((low, high), blocks)| {
            let length = high.subtract(low).bounds(ranges).1.max(0);
            blocks.as_ref().map_or(length, |blocks| blocks.count(length, blocks.size.bounds(ranges).1))
        })
        .collect()
    }

    /// Returns the box for this value of `symbol`.
    #[must_use]
    pub fn fixed(&self, symbol: Symbol, value: i64, ranges: &Ranges) -> Self {
        let value = Expr::constant(value);
        self.map(|expr| expr.replace(symbol, &value, ranges))
    }

    /// The box with each expression replaced.
    pub fn map(&self, replace: impl Fn(&Expr) -> Expr) -> Self {
        let both = |(a, b): &(Expr, Expr)| (replace(a), replace(b));
        Self {
            ranges: self.ranges.iter().map(both).collect(),
            when: self.when.iter().map(both).collect(),
            periods: self.periods.clone(),
            blocks: self.blocks.iter().map(|blocks| blocks.as_ref()?.map(&replace)).collect(),
        }
    }

    /// The box without gaps that has these ranges.
    pub fn of_ranges(ranges: Vec<(Expr, Expr)>) -> Self {
        let (periods, blocks) = (vec![None; ranges.len()], vec![None; ranges.len()]);
        Self { ranges, when: Vec::new(), periods, blocks }
    }

    /// The box restricted to the dimensions that `chosen` accepts.
    pub fn restricted(&self, chosen: impl Fn(usize) -> bool) -> Self {
        let dims: Vec<_> = (0..self.ranges.len()).filter(|&dim| chosen(dim)).collect();
        Self {
            ranges: dims.iter().map(|&dim| self.ranges[dim].clone()).collect(),
            when: self.when.clone(),
            periods: dims.iter().map(|&dim| self.periods[dim]).collect(),
            blocks: dims.iter().map(|&dim| self.blocks[dim].clone()).collect(),
        }
    }

    /// Returns whether the box has gaps in some dimension.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        self.blocks.iter().any(Option::is_some)
    }

    /// Returns the box of the ranks that have these coordinates along `axes`, empty on all others.
    #[must_use]
    pub fn where_equal(&self, axes: &[usize], coordinates: &[Expr]) -> Self {
        let mut region = self.clone();
        for (&axis, coordinate) in axes.iter().zip(coordinates) {
            let own = Expr::symbol(Symbol::Coordinate(AxisId(axis)));
            region.when.push((own.clone(), coordinate.offset_by(1)));
            region.when.push((coordinate.clone(), own.offset_by(1)));
        }
        region
    }

    /// Returns whether the box wraps around the end of some dimension.
    #[must_use]
    pub fn wraps(&self) -> bool {
        self.periods.iter().any(Option::is_some)
    }

    /// Returns, per dimension, the largest number of distinct indices that the box ever has.
    #[must_use]
    pub fn max_distinct(&self, ranges: &Ranges) -> Vec<i64> {
        let extents = self.max_extents(ranges).into_iter().zip(&self.periods);
        extents.map(|(extent, period)| period.map_or(extent, |period| extent.min(period))).collect()
    }
}
