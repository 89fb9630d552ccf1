//! What the busiest rank receives, counted as the runtime counts it, where ranks and steps are few.

use crate::expr::{Expr, Ranges};
use crate::nest::{Nest, OutputRoute, Region, Route, Transfer, members, partners};
use polyshard_layout::Sharding;

/// Transfers, of all ranks in all steps, beyond which nothing is counted: a few milliseconds.
const MAX_TRANSFERS: u64 = 8192;

/// Bytes that the busiest rank receives.
pub(crate) struct Busiest {
    /// In all steps, of all tensors.
    pub total: u64,
    /// In one step of each transfer.
    pub inputs: Vec<u64>,
    /// In one step of the output.
    pub output: u64,
}

/// What the busiest rank receives; none if there are too many steps to count.
pub(crate) fn of_busiest(nest: &Nest) -> Option<Busiest> {
    let extents = nest.ranges().counters;
    let steps = |level: usize| {
        let extents = extents[..level].iter();
        extents.fold(1u64, |product, &extent| product.saturating_mul(extent.max(0) as u64))
    };
    let (output, element) = (&nest.output, nest.kernel.dtype().size() as u64);
    let ranges = nest.ranges();
    let sums = writers(&output.route, nest).max(1).saturating_mul(most_blocks(&output.region, &ranges));
    let sums = steps(output.level).saturating_mul(sums);
    let transfers = nest.transfers.iter();
    let transfers =
        transfers.map(|transfer| steps(transfer.level).saturating_mul(most_blocks(&transfer.region, &ranges)));
    let ranks = nest.mesh.size();
    if transfers.fold(sums, u64::saturating_add).saturating_mul(ranks as u64) > MAX_TRANSFERS {
        return None;
    }
    let mut busiest = Busiest { total: 0, inputs: vec![0; nest.transfers.len()], output: 0 };
    for rank in 0..ranks {
        let rank = Rank::new(nest, nest.mesh.coordinates(rank));
        let sums = |counters: &[i64]| rank.received_sums(&output.route, &output.region, counters);
        let (mut total, most) = in_all_steps(output.level, &extents, sums);
        busiest.output = busiest.output.max(most);
        for (transfer, busiest) in nest.transfers.iter().zip(&mut busiest.inputs) {
            let received = |counters: &[i64]| {
                let elements = rank.received(transfer, &transfer.route, &transfer.region, counters);
                elements.saturating_mul(element)
            };
            let (sum, most) = in_all_steps(transfer.level, &extents, received);
            total = total.saturating_add(sum);
            *busiest = (*busiest).max(most);
        }
        busiest.total = busiest.total.max(total);
    }
    Some(busiest)
}

/// The ranks whose tiles are looked at to know what one rank receives of the output in one step.
fn writers(route: &OutputRoute, nest: &Nest) -> u64 {
    match route {
        OutputRoute::Halo { reach } | OutputRoute::Exchange { reach } => partners(reach, &nest.mesh) as u64,
        OutputRoute::Shift { last, .. } => writers(last, nest),
        _ => 1,
    }
}

/// The indices of a region along one dimension, for one rank in one step.
#[derive(Clone, Copy)]
struct Along {
    low: i64,
    high: i64,
    period: Option<i64>,
    /// The size of blocks and their distance.
    blocks: Option<(i64, i64)>,
}

impl Along {
    fn count(&self) -> u64 {
        let length = self.high - self.low;
        let count = self.blocks.map_or(length, |(size, step)| length / step * size + (length % step).min(size));
        count as u64
    }

    fn distinct(&self) -> u64 {
        self.period.map_or(self.count(), |period| self.count().min(period as u64))
    }

    /// The ranges of consecutive indices.
    fn runs(&self) -> impl Iterator<Item = (i64, i64)> {
        let &Self { low, high, blocks, .. } = self;
        let (size, step) = blocks.unwrap_or((high - low, i64::MAX));
        let starts = std::iter::successors(Some(low), move |start| start.checked_add(step));
        let starts = starts.take_while(move |&start| start < high);
        starts.map(move |start| (start, start.saturating_add(size).min(high)))
    }
}

/// The most blocks of a region along its dimensions, which are looked at one by one.
fn most_blocks(region: &Region, ranges: &Ranges) -> u64 {
    let dims = region.ranges.iter().zip(&region.blocks).filter_map(|((low, high), blocks)| {
        let length = high.subtract(low).bounds(ranges).1.max(0);
        Some(length / blocks.as_ref()?.stride)
    });
    dims.fold(1, |sum, blocks| sum.saturating_add(blocks as u64))
}

/// The sum over all values of the counters of the first `level` loops, and the most for one of them.
fn in_all_steps(level: usize, extents: &[i64], received: impl Fn(&[i64]) -> u64) -> (u64, u64) {
    let mut counters = vec![0; extents.len()];
    let (mut sum, mut most) = (0u64, 0);
    if extents[..level].iter().any(|&extent| extent < 1) {
        return (0, 0);
    }
    loop {
        let step = received(&counters);
        (sum, most) = (sum.saturating_add(step), most.max(step));
        // The next step, the innermost loop fastest.
        let Some(next) = (0..level).rev().find(|&number| counters[number] + 1 < extents[number]) else {
            return (sum, most);
        };
        counters[next] += 1;
        counters[next + 1..level].fill(0);
    }
}

struct Rank<'a> {
    nest: &'a Nest,
    coordinates: Vec<usize>,
    indices: Vec<i64>,
}

impl<'a> Rank<'a> {
    fn new(nest: &'a Nest, coordinates: Vec<usize>) -> Self {
        Self { nest, indices: coordinates.iter().map(|&at| at as i64).collect(), coordinates }
    }

    /// The elements that the rank receives of an input.
    fn received(&self, transfer: &Transfer, route: &Route, region: &Region, counters: &[i64]) -> u64 {
        let ranges = self.ranges(region, counters);
        let product =
            |ranges: &[Along], count: fn(&Along) -> u64| ranges.iter().map(count).fold(1, u64::saturating_mul);
        let all = || ranges.as_deref().map_or(0, |ranges| product(ranges, Along::count));
        let at = |expr: &Expr| expr.eval(&self.indices, counters);
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
                if self.leads_home(*axis, *by) {
                    0
                } else {
                    all()
                }
            }
            Route::Sequence { first, held, next } => {
                // What is held in between may be something where the region itself is empty.
                let steps = [(first, held), (next, region)];
                let [first, next] = steps.map(|(route, region)| self.received(transfer, route, region, counters));
                first.saturating_add(next)
            }
            Route::AllGather { .. } | Route::Halo { .. } | Route::Exchange { .. } => {
                let sharding = &self.nest.shardings[transfer.tensor];
                ranges.as_deref().map_or(0, |ranges| product(ranges, Along::distinct) - self.own(sharding, ranges))
            }
        }
    }

    fn leads_home(&self, axis: usize, by: i64) -> bool {
        by.rem_euclid(self.nest.mesh.as_slice()[axis].extent as i64) == 0
    }

    /// The bytes that the rank receives of the output.
    fn received_sums(&self, route: &OutputRoute, region: &Region, counters: &[i64]) -> u64 {
        let (nest, sums) = (self.nest, self.nest.sum_kind());
        let bytes = |rank: &Rank<'_>| {
            let count = |ranges: Vec<Along>| ranges.iter().map(Along::count).fold(sums.element, u64::saturating_mul);
            rank.ranges(region, counters).map_or(0, count)
        };
        let values = |exprs: &[Expr], rank: &Rank<'_>| -> Vec<i64> {
            exprs.iter().map(|expr| expr.eval(&rank.indices, counters)).collect()
        };
        match route {
            OutputRoute::InPlace | OutputRoute::Combine => 0,
            OutputRoute::Reduce { axes, root } => {
                let root: Vec<_> = values(root, self).into_iter().map(|at| at.max(0) as usize).collect();
                let root = Some(self.member(axes, &root));
                sums.received(bytes(self), members(axes, &nest.mesh), self.own_member(axes), root)
            }
            OutputRoute::AllReduce { axes } => {
                sums.received(bytes(self), members(axes, &nest.mesh), self.own_member(axes), None)
            }
            OutputRoute::ReduceScatter { axes } => {
                let Some(ranges) = self.ranges(region, counters) else { return 0 };
                let own = self.owned(self.output(), &ranges).0;
                (members(axes, &nest.mesh) - 1).saturating_mul(own).saturating_mul(sums.element)
            }
            OutputRoute::Permute { to, from } => {
                // The rank whose tile is this rank's, if there is one.
                let from = values(from, self).into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
                let extents = nest.mesh.extents();
                let inside = |from: &Vec<usize>| from.iter().zip(extents.iter()).all(|(at, extent)| at < extent);
                match from.ok().filter(inside).map(|from| Rank::new(nest, from)) {
                    Some(from) if from.indices != self.indices && values(to, &from) == self.indices => bytes(&from),
                    _ => 0,
                }
            }
            OutputRoute::Shift { axis, by, counter, last } => {
                let taken = if counters[*counter] > 0 && !self.leads_home(*axis, *by) { bytes(self) } else { 0 };
                let ends = counters[*counter] + 1 == nest.ranges().counters[*counter];
                taken.saturating_add(if ends { self.received_sums(last, region, counters) } else { 0 })
            }
            OutputRoute::Halo { reach } | OutputRoute::Exchange { reach } => {
                let mirrored: Vec<_> = reach.iter().map(|reach| reach.mirrored()).collect();
                let writers = nest.mesh.in_reach(&self.coordinates, &mirrored);
                let others = writers.filter(|writer| *writer != self.coordinates);
                let received = others.map(|writer| {
                    let ranges = Rank::new(nest, writer).ranges(region, counters);
                    ranges.map_or(0, |ranges| self.owned(self.output(), &ranges).0)
                });
                received.fold(0, u64::saturating_add).saturating_mul(sums.element)
            }
        }
    }

    fn output(&self) -> &Sharding {
        self.nest.shardings.last().expect("a kernel has an output; this is a bug of polyshard")
    }

    /// The number, among the ranks that differ from this one along `axes` alone, of the one at these coordinates along `axes`.
    fn member(&self, axes: &[usize], at: &[usize]) -> u64 {
        let extents = axes.iter().map(|&axis| self.nest.mesh.as_slice()[axis].extent as u64);
        extents.zip(at).fold(0, |number, (extent, &at)| number * extent + at as u64)
    }

    fn own_member(&self, axes: &[usize]) -> u64 {
        self.member(axes, &axes.iter().map(|&axis| self.coordinates[axis]).collect::<Vec<_>>())
    }

    /// The ranges of a region here, if it is not empty.
    fn ranges(&self, region: &Region, counters: &[i64]) -> Option<Vec<Along>> {
        let at = |expr: &Expr| expr.eval(&self.indices, counters);
        if region.when.iter().any(|(a, b)| at(a) >= at(b)) {
            return None;
        }
        let dims = region.ranges.iter().zip(region.periods.iter().zip(&region.blocks));
        let dims = dims.map(|((low, high), (&period, blocks))| {
            let blocks = blocks.as_ref().map(|blocks| (at(&blocks.size).clamp(0, blocks.stride), blocks.stride));
            let along = Along { low: at(low), high: at(high), period, blocks };
            (along.low < along.high && along.count() > 0).then_some(along)
        });
        dims.collect()
    }

    /// The elements of a region that the rank reads from its own shard.
    fn own(&self, sharding: &Sharding, ranges: &[Along]) -> u64 {
        let (count, first) = self.owned(sharding, ranges);
        // Of several owners, one is read from.
        if count > 0 && sharding.owner(&self.coordinates, &first) == self.coordinates { count } else { 0 }
    }

    /// The elements of a region that the rank owns, and the first element of its shard.
    fn owned(&self, sharding: &Sharding, ranges: &[Along]) -> (u64, Vec<usize>) {
        let mut count = 1u64;
        let mut first = Vec::with_capacity(ranges.len());
        for ((layout, &extent), along) in sharding.dims().iter().zip(sharding.shape()).zip(ranges) {
            let below = |end: i64| layout.owned_below(&self.coordinates, end as usize) as i64;
            let inside = |low: i64, high: i64| if low < high { below(high) - below(low) } else { 0 };
            let found = match along.period {
                None => along.runs().map(|(low, high)| inside(low.max(0), high.min(extent as i64))).sum(),
                Some(period) => {
                    let from = along.low.rem_euclid(period);
                    let to = from + (along.high - along.low).min(period);
                    inside(from, to.min(period)) + inside(0, (to - period).max(0))
                }
            };
            count = count.saturating_mul(found as u64);
            first.push(layout.first(&self.coordinates).min(extent.saturating_sub(1)));
        }
        (if sharding.keeps(&self.coordinates) { count } else { 0 }, first)
    }
}
