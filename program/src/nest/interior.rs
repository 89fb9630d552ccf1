//! The interior of a leaf: the iterations that read only the part of a halo's region that their rank owns, so that they can be computed
//! while the rest is in flight.
//!
//! ```text
//! a row of a leaf      .  .  .  .  .  .  .  .
//! reads from others    <                    >       left and right neighbours
//! interior                .  .  .  .  .  .
//! rims                 .                    .
//! ```

use super::{Direction, LeafAccess, LeafOp, NestView, Transfer, TransferView};
use crate::expr::{Expr, Ranges};
use crate::ids::LeafLoopId;
use polyshard_layout::{DimLayout, Sharding};
use serde::{Deserialize, Serialize};

/// The iterations of a leaf that are computed while halos are in flight: a range of each of its loops, counted from 0 and inside the
/// loop. The interior is empty if one of the ranges is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interior {
    /// By loop of the leaf, the first iteration and the one after the last.
    pub ranges: Vec<(Expr, Expr)>,
}

impl NestView<'_> {
    /// Returns the iterations of the leaf that read only elements that the rank owns of the inputs in flight meanwhile; none if no input
    /// is in flight then.
    ///
    /// # Errors
    /// Why these iterations cannot be determined, as a clause without a subject.
    pub fn interior(&self) -> Result<Option<Interior>, &'static str> {
        let coming = || self.transfers.iter().filter(|transfer| transfer.is_interior_first());
        if coming().next().is_none() {
            return Ok(None);
        }
        let ranges = self.ranges();
        for transfer in coming() {
            transfer.can_come_meanwhile(self.loops.len())?;
            if transfer.region.has_blocks() || !self.shardings[transfer.tensor.0].pins().is_empty() {
                return Err("a rank's part of it is not one box");
            }
        }
        if self.leaf.op != LeafOp::Nest || self.leaf.loops.is_empty() {
            return Err("the leaf is not a nest with loops that can be cut");
        }
        if self.kernel.record_index().is_some() {
            return Err("the leaf combines records");
        }
        if !self.kernel.writes_once() {
            return Err("the leaf adds up terms, in an order that depends on how it is cut");
        }
        let whole = |l: &super::LeafLoop| (Expr::constant(0), Expr::max(&Expr::constant(0), &l.count, &ranges));
        let mut interior = Interior { ranges: self.leaf.loops.iter().map(whole).collect() };
        for transfer in coming() {
            for operand in transfer.operands {
                let access = &self.leaf.operands[operand.0];
                self.shrink(&mut interior, access, transfer, &ranges)?;
            }
        }
        Ok(Some(interior))
    }

    /// Leaves out the iterations in which an access reads elements that the rank does not own.
    fn shrink(
        &self,
        interior: &mut Interior,
        access: &LeafAccess,
        transfer: &TransferView<'_>,
        ranges: &Ranges,
    ) -> Result<(), &'static str> {
        let sharding = self.shardings[transfer.tensor.0];
        for (dim, layout) in sharding.dims().iter().enumerate() {
            if layout.is_whole() && transfer.region.periods[dim].is_none() {
                continue;
            }
            let (low, high) = owned(sharding, dim, layout, ranges).ok_or("a rank's part of it is not one box")?;
            // Beyond the period, an index refers to another element, which is in the tile.
            let period = transfer.region.periods[dim].map(Expr::constant);
            let high = period.map_or(high.clone(), |period| Expr::min(&high, &period, ranges));
            let strides = &access.strides[dim];
            let moved = |l: &usize| strides[*l] != 0;
            let longest = |l: &usize| self.leaf.loops[*l].count.bounds(ranges).1;
            let cut = (0..strides.len()).filter(moved).rev().max_by_key(longest);
            let cut = cut.ok_or("no loop of the leaf runs along a dimension of the halo")?;
            // The minimum and maximum of the index over the other loops, in the first iteration of the cut one.
            let (mut least, mut most) = (access.base[dim].clone(), access.base[dim].clone());
            for l in (0..strides.len()).filter(|&l| l != cut && strides[l] != 0) {
                let last = self.leaf.loops[l].count.offset_by(-1).multiply(strides[l]);
                let end = if strides[l] > 0 { &mut most } else { &mut least };
                *end = end.add(&last);
            }
            let (stride, below, above) = (strides[cut].abs(), low.subtract(&least), high.offset_by(-1).subtract(&most));
            let (first, last) = match strides[cut] > 0 {
                true => (below, above),
                false => (above.multiply(-1), below.multiply(-1)),
            };
            let (first, end) = (first.offset_by(stride - 1).div(stride, ranges), last.div(stride, ranges).offset_by(1));
            let range = &mut interior.ranges[cut];
            *range = (Expr::max(&range.0, &first, ranges), Expr::min(&range.1, &end, ranges));
        }
        Ok(())
    }

    /// Returns the loops of the leaf that are cut if its interior is computed first: those along which there are rims, and the one that
    /// is sliced.
    #[must_use]
    pub fn cut_loops(&self) -> Vec<LeafLoopId> {
        let Some(Interior { ranges }) = &self.leaf.interior else { return Vec::new() };
        let bounds = self.ranges();
        let is_cut = |LeafLoopId(number): &LeafLoopId| {
            let ((low, high), count) = (&ranges[*number], &self.leaf.loops[*number].count);
            low.as_constant() != Some(0) || *high != Expr::max(&Expr::constant(0), count, &bounds)
        };
        (0..ranges.len())
            .map(LeafLoopId)
            .filter(|number| self.sliced_along() == Some(*number) || is_cut(number))
            .collect()
    }

    /// Returns the fraction of the leaf that is its interior, from 0 to 1, on a rank with neighbours on all sides.
    #[must_use]
    pub fn interior_part(&self) -> f64 {
        let Some(interior) = &self.leaf.interior else { return 0.0 };
        let middle: Vec<_> = self.mesh.extents().into_iter().map(|extent| (extent as i64 - 1) / 2).collect();
        let counters = vec![0; self.loops.len()];
        let parts = interior.ranges.iter().zip(&self.leaf.loops).map(|((low, high), l)| {
            let [low, high, count] = [low, high, &l.count].map(|expr| expr.eval(&middle, &counters));
            if count > 0 { (high - low).max(0) as f64 / count as f64 } else { 0.0 }
        });
        parts.product()
    }
}

impl Transfer {
    /// Whether it can be in flight while the leaf inside of this many loops computes; else why not.
    pub(crate) fn can_come_meanwhile(&self, loops: usize) -> Result<(), &'static str> {
        if self.direction != Direction::In || self.route.halo().is_none() {
            return Err("it is not fetched as a halo");
        }
        match (self.ahead, self.level.0 == loops) {
            (1.., _) => Err("it is pipelined"),
            (0, false) => Err("loops around the leaf reuse the fetched tile"),
            (0, true) => Ok(()),
        }
    }
}

/// The indices of a dimension that a rank owns, if they are one range.
fn owned(sharding: &Sharding, dim: usize, layout: &DimLayout, ranges: &Ranges) -> Option<(Expr, Expr)> {
    let mut low = Expr::constant(0);
    let mut high = Expr::constant(sharding.shape()[dim] as i64);
    for level in layout.levels() {
        if level.cyclic {
            return None;
        }
        low = low.add(&Expr::of_rank(&level.at, ranges).multiply(level.block as i64));
        high = Expr::min(&high, &low.offset_by(level.block as i64), ranges);
    }
    Some((low, high))
}
