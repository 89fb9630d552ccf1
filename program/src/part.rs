//! Regions as numbers: the indices of a box for one rank in one step, and how leaves walk in it.

use crate::bounds::LIMIT;
use crate::expr::Expr;
use crate::nest::Region;
use polyshard_layout::{Along, ends_of_walk};
use std::ops::Range;

/// Whether a walk from an index stays inside, with loops of these strides and counts, no count being 0; each loop stays in
/// one block, or moves from block to block.
pub(crate) fn holds(along: &Along, start: i64, loops: impl Iterator<Item = (i64, i64)> + Clone) -> bool {
    let Range { start: low, end: high } = along.range();
    let within = |start: i128, low: i128, high: i128, goes: &dyn Fn(i64) -> bool| {
        let (least, most) = ends_of_walk(start, loops.clone().filter(|(stride, _)| goes(*stride)));
        low <= least && most < high
    };
    let inside = within(start.into(), low.into(), high.into(), &|_| true);
    inside
        && along.blocks().is_none_or(|(size, step)| {
            let at = (i128::from(start) - i128::from(low)).rem_euclid(step.into());
            within(at, 0, size.into(), &|stride| stride % step != 0)
        })
}

/// Whether all indices from one to another are inside.
pub(crate) fn spans(along: &Along, least: i128, most: i128) -> bool {
    let Range { start: low, end: high } = along.range();
    i128::from(low) <= least && most < i128::from(high) && along.blocks().is_none()
}

/// The same dimension around a walk, as in [`holds`]: the part that the walk covers without gaps is a block, and larger
/// strides move from block to block.
pub(crate) fn around(along: &Along, start: i64, loops: impl Iterator<Item = (i64, i64)>) -> Along {
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
            // If blocks have several distances, all indices between them are included.
            Some(between) if stride % between != 0 => size = between,
            Some(_) => {}
        }
    }
    let [low, high, size] = [least, most, size].map(|at| at.clamp(-2 * LIMIT, 2 * LIMIT) as i64);
    let step = step.map(|step: i128| step.min(LIMIT) as i64);
    let walked = Along::new(low..high);
    let walked = step.map_or(walked, |step| walked.in_blocks(size, step));
    along.period().map_or(walked, |period| walked.periodic(period))
}

impl Region {
    /// Returns the indices along each dimension for the rank at these coordinates, where the loops have these counters;
    /// none if the region is empty there.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 10, 6], B: [f32; 6, 8]) -> C: [f32; 10, 8] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let program = matmul.distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 4)])).lower()?;
    /// let rows = |rank: i64| program.nest().output().region.at(&[rank], &[]).map(|part| part[0].count());
    /// assert_eq!([0, 1, 2, 3].map(rows), [Some(3), Some(3), Some(3), Some(1)]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn at(&self, coordinates: &[i64], counters: &[i64]) -> Option<Vec<Along>> {
        let at = |expr: &Expr| expr.eval(coordinates, counters);
        if self.when.iter().any(|(a, b)| at(a) >= at(b)) {
            return None;
        }
        let dims = self.ranges.iter().zip(self.periods.iter().zip(&self.blocks));
        let dims = dims.map(|((low, high), (&period, blocks))| {
            let range = Along::new(at(low)..at(high));
            let range = blocks.as_ref().map_or(range, |blocks| range.in_blocks(at(&blocks.size), blocks.stride));
            let along = period.map_or(range, |period| range.periodic(period));
            (!along.is_empty()).then_some(along)
        });
        dims.collect()
    }
}
