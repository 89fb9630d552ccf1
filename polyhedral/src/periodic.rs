//! Periodic indices: `A[(i + 1) % n]`, which wraps to 0 at the modulus.
//!
//! Everything but ownership is expressed in *unwrapped* coordinates, in which the index is affine: tiles hold
//! elements as if the tensor continued without end, so that leaves walk through them as through any other tile. The
//! remainder is taken only to find an element's owner, and to copy it.

use crate::conditions::{Conditions, Form};
use crate::nest::Depth;
use crate::relation::Relations;
use polyshard_program::{Access, Affine, Expr, Ranges, Region};

/// The box of a tile whose ranges are hulls in unwrapped coordinates: clipped to the tensor where it does not wrap.
pub(crate) fn clipped(
    ranges: Vec<(Expr, Expr)>,
    periods: Vec<Option<i64>>,
    shape: &[usize],
    symbols: &Ranges,
) -> Region {
    let clip = |((low, high), (period, &extent)): ((Expr, Expr), (&Option<i64>, &usize))| match period {
        Some(_) => (low, high),
        None => {
            let extent = Expr::constant(extent as i64);
            (Expr::max(&low, &Expr::constant(0), symbols), Expr::min(&high, &extent, symbols))
        }
    };
    let ranges = ranges.into_iter().zip(periods.iter().zip(shape)).map(clip).collect();
    Region { periods, ..Region::of_ranges(ranges) }
}

/// The part of a tile that an access may touch so that its remainder is the element that the tile has there: if it
/// takes another remainder than the tile, or none, the indices that both leave unchanged.
pub(crate) fn meant(access: &Access, region: &Region) -> Region {
    let dims = access.index.iter().zip(&region.periods).zip(&region.ranges);
    let range = |((index, period), (low, high)): ((&Affine, &Option<i64>), &(Expr, Expr))| {
        let own = index.period();
        match own.into_iter().chain(*period).min() {
            Some(least) if own != *period => (Expr::constant(0), Expr::constant(least)),
            _ => (low.clone(), high.clone()),
        }
    };
    Region::of_ranges(dims.map(range).collect())
}

impl Relations<'_> {
    /// Iterations at `depth` to the elements of the region, each inside the tensor.
    pub(crate) fn elements(&self, depth: Depth, region: &Region) -> Conditions {
        let ndim = region.ranges.len();
        let mut conditions = self.iterations(depth, ndim);
        self.inside(&mut conditions, region, &(0..ndim).map(Form::output).collect::<Vec<_>>());
        conditions
    }

    /// Adds that the element is in the region.
    pub(crate) fn inside(&self, conditions: &mut Conditions, region: &Region, element: &[Form]) {
        self.when(conditions, &region.when);
        for (dim, (index, (low, high))) in element.iter().zip(&region.ranges).enumerate() {
            let Some(period) = region.periods[dim] else {
                self.between(conditions, index, low, high);
                self.in_blocks(conditions, index, low, region.blocks[dim].as_ref());
                continue;
            };
            // Some index of the range has this remainder if the first one that has it is not too far from `low`.
            let length = self.value(conditions, &high.subtract(low));
            let low = self.value(conditions, low);
            conditions.within(index, period);
            let after = conditions.remainder(&index.subtract(&low), period);
            conditions.below(&after, &length);
        }
    }
}

#[cfg(test)]
mod tests;
