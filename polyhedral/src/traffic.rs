//! What inputs bring to the busiest rank, counted as the runtime counts it, where ranks and steps are few.

use crate::program::{Program, Region, Route, Transfer};
use polyshard_layout::Sharding;

/// Transfers, of all ranks in all steps, beyond which nothing is counted: a few milliseconds.
const MAX_TRANSFERS: u64 = 8192;

/// The most elements that one rank receives of the inputs; none if there are too many steps to count.
pub(crate) fn of_inputs(program: &Program) -> Option<u64> {
    let extents = program.ranges().counters;
    let steps = |transfer: &Transfer| {
        let extents = extents[..transfer.level].iter();
        extents.fold(1u64, |product, &extent| product.saturating_mul(extent.max(0) as u64))
    };
    let steps: u64 = program.transfers.iter().map(steps).fold(0, u64::saturating_add);
    let ranks = program.mesh.size();
    if steps.saturating_mul(ranks as u64) > MAX_TRANSFERS {
        return None;
    }
    let received = |rank| -> u64 {
        let coordinates = program.mesh.coordinates(rank);
        let rank = Rank { program, indices: coordinates.iter().map(|&at| at as i64).collect(), coordinates };
        program.transfers.iter().map(|transfer| rank.all_steps(transfer, &extents)).fold(0, u64::saturating_add)
    };
    (0..ranks).map(received).max()
}

struct Rank<'a> {
    program: &'a Program,
    coordinates: Vec<usize>,
    indices: Vec<i64>,
}

impl Rank<'_> {
    fn all_steps(&self, transfer: &Transfer, extents: &[i64]) -> u64 {
        let mut counters = vec![0; extents.len()];
        let mut sum = 0u64;
        if extents[..transfer.level].iter().any(|&extent| extent < 1) {
            return 0;
        }
        loop {
            sum = sum.saturating_add(self.received(transfer, &transfer.route, &transfer.region, &counters));
            // The next step, the innermost loop fastest.
            let Some(next) = (0..transfer.level).rev().find(|&number| counters[number] + 1 < extents[number]) else {
                return sum;
            };
            counters[next] += 1;
            counters[next + 1..transfer.level].fill(0);
        }
    }

    fn received(&self, transfer: &Transfer, route: &Route, region: &Region, counters: &[i64]) -> u64 {
        let Some(ranges) = self.ranges(region, counters) else { return 0 };
        let all = || ranges.iter().map(|(low, high)| (high - low) as u64).fold(1, u64::saturating_mul);
        let at = |expr: &crate::expr::Expr| expr.eval(&self.indices, counters);
        match route {
            Route::Hold | Route::Copy => 0,
            Route::Broadcast { axes, root } => {
                let is_root = axes.iter().zip(root).all(|(&axis, root)| self.indices[axis] == at(root));
                if is_root { 0 } else { all() }
            }
            Route::Permute { from, .. } => {
                if from.iter().map(at).eq(self.indices.iter().copied()) {
                    0
                } else {
                    all()
                }
            }
            Route::Shift { counter, first, .. } if counters[*counter] == 0 => {
                self.received(transfer, first, region, counters)
            }
            Route::Shift { axis, by, .. } => {
                let home = by.rem_euclid(self.program.mesh.as_slice()[*axis].extent as i64) == 0;
                if home { 0 } else { all() }
            }
            Route::Sequence { first, held, next } => {
                let [first, next] = [(first, held), (next, region)]
                    .map(|(route, region)| self.received(transfer, route, region, counters));
                first.saturating_add(next)
            }
            Route::Allgather { .. } | Route::Halo { .. } | Route::Exchange { .. } => {
                let sharding = &self.program.shardings[transfer.tensor];
                let periods = ranges.iter().zip(&region.periods);
                let different = periods.map(|(&(low, high), period)| period.map_or(high - low, |p| p.min(high - low)));
                let different = different.map(|count| count as u64).fold(1, u64::saturating_mul);
                different - self.own(sharding, &ranges, &region.periods)
            }
        }
    }

    /// The ranges of a region here, if it is not empty.
    fn ranges(&self, region: &Region, counters: &[i64]) -> Option<Vec<(i64, i64)>> {
        let at = |expr: &crate::expr::Expr| expr.eval(&self.indices, counters);
        if region.when.iter().any(|(a, b)| at(a) >= at(b)) {
            return None;
        }
        region.ranges.iter().map(|(low, high)| Some((at(low), at(high))).filter(|(low, high)| low < high)).collect()
    }

    /// The elements of a region that the rank reads from its own shard.
    fn own(&self, sharding: &Sharding, ranges: &[(i64, i64)], periods: &[Option<i64>]) -> u64 {
        let mut count = 1u64;
        let mut first = Vec::with_capacity(ranges.len());
        for ((layout, &extent), (&(low, high), period)) in
            sharding.dims().iter().zip(sharding.shape()).zip(ranges.iter().zip(periods))
        {
            let below = |end: i64| layout.owned_below(&self.coordinates, end as usize) as i64;
            let inside = |low: i64, high: i64| if low < high { below(high) - below(low) } else { 0 };
            let found = match period {
                None => inside(low.max(0), high.min(extent as i64)),
                Some(period) => {
                    let from = low.rem_euclid(*period);
                    let to = from + (high - low).min(*period);
                    inside(from, to.min(*period)) + inside(0, (to - period).max(0))
                }
            };
            count = count.saturating_mul(found as u64);
            first.push(layout.first(&self.coordinates).min(extent.saturating_sub(1)));
        }
        // Of several owners, one is read from.
        let read = count > 0 && sharding.keeps(&self.coordinates);
        if read && sharding.owner(&self.coordinates, &first) == self.coordinates { count } else { 0 }
    }
}
