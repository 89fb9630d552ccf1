//! How a region gets to the ranks that read it: the cheapest pattern that isl can prove.
//!
//! The tests follow the order local, broadcast, shift, permute, two steps, all-gather, halo, exchange. Closed forms propose
//! (where a root is, which neighbour sends) and isl decides: a pattern is chosen only if the relation of the needed
//! elements allows it. The exchange needs no test; it is correct for every region and sharding.

use crate::context::Context;
use crate::isl::{IslResult, Relation};
use crate::need::{Need, WhichOwners};
use crate::nest::Depth;
use crate::proofs::Trail;
use crate::relation::owners;
use crate::source::invert;
use polyshard_layout::{DimLayout, joined};
use polyshard_program::{AxisId, CounterId, Expr, Leg, Owners, Property, Region, Route, Shift, Symbol};

impl Context<'_> {
    /// The route of a region; `trail` gets a line for each test made, and the claims that the tests proved.
    pub(crate) fn route(&self, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
        self.route_of(need, true, trail)
    }

    /// Whether every rank owns all of its region.
    pub(crate) fn is_local(&self, need: &Need<'_>) -> IslResult<bool> {
        if let Some(samples) = &self.samples {
            return Ok(samples.all_own(need, None));
        }
        let owned = self.relation(&owners(need.sharding))?.reverse()?;
        let own = self.relation(&self.relations.ranks(need.depth))?.then(&owned)?;
        self.needed(need.depth, need.region)?.is_subset(&own)
    }

    pub(crate) fn needed(&self, depth: Depth, region: &Region) -> IslResult<Relation> {
        self.relation(&self.relations.elements(depth, region))
    }

    fn route_of(&self, need: &Need<'_>, may_shift: bool, trail: &mut Trail) -> IslResult<Route> {
        if self.is_local(need)? {
            let is_cyclic = need.sharding.dims().iter().any(DimLayout::is_cyclic);
            trail.test(match is_cyclic {
                true => "each rank owns all it needs, block-cyclic: local",
                false => "each rank owns all it needs: local",
            });
            trail.proved(Property::Residency, "each rank owns its tile");
            return Ok(if is_cyclic || need.region.wraps() { Leg::Copy } else { Leg::InPlace }.into());
        }
        if need.region.wraps() {
            trail.test("the needed region wraps around the end of the tensor");
            return self.gather(need, trail);
        }
        // If a region has one owner, it is the owner of its low corner.
        let from = self.sources(need.sharding).at_low(need.region);
        if !self.is_owned_by(need, &from)? {
            trail.test("the needed region has several owners");
            return self.gather(need, trail);
        }
        self.single_owner(need, from, may_shift, trail)
    }

    /// Whether the rank at these coordinates owns all elements that the reader needs.
    fn is_owned_by(&self, need: &Need<'_>, from: &[Expr]) -> IslResult<bool> {
        if let Some(samples) = &self.samples {
            return Ok(samples.all_own(need, Some(from)));
        }
        let owned = self.relation(&self.sources(need.sharding).owned_by(need.depth, from))?;
        self.needed(need.depth, need.region)?.is_subset(&owned)
    }

    /// Whether `root` is the own coordinate of each rank that needs anything.
    fn is_aligned(&self, need: &Need<'_>, axis: usize, root: &Expr) -> IslResult<bool> {
        if let Some(samples) = &self.samples {
            return Ok(samples.are_own(need, axis, root));
        }
        let along = self.relation(&self.relations.points(need.depth, std::slice::from_ref(root), &[]))?;
        along.restrict(&self.needed(need.depth, need.region)?)?.is_subset(&self.own_coordinate(need.depth, axis)?)
    }

    /// Returns a test of an axis: whether all owners of the elements that a rank needs have the rank's coordinate along it.
    pub(crate) fn aligned(&self, need: &Need<'_>, which: WhichOwners) -> impl Fn(usize) -> IslResult<bool> {
        let sampled = self.samples.as_ref().and_then(|samples| samples.are_aligned(need, which));
        move |axis| match &sampled {
            Some(aligned) => Ok(aligned[axis]),
            None => self.owners(need, which)?.output(axis)?.is_subset(&self.own_coordinate(need.depth, axis)?),
        }
    }

    /// The route if all elements that a rank needs are owned by the rank at `from`.
    fn single_owner(&self, need: &Need<'_>, from: Vec<Expr>, may_shift: bool, trail: &mut Trail) -> IslResult<Route> {
        trail.test(format!("the needed region has one owner, ({})", self.rank(&from)));
        let owned_there = format!("rank ({}) owns the tile", self.rank(&from));
        let mut broadcast = Vec::new();
        let mut other = Vec::new();
        for (axis, root) in from.iter().enumerate() {
            let name = self.names(&[axis]);
            if self.is_aligned(need, axis, root)? {
                trail.test(format!("axis {name}: the owner's coordinate is the reader's, aligned"));
            } else if !root.mentions(Symbol::Coordinate(AxisId(axis)))
                && !need.region.mentions(Symbol::Coordinate(AxisId(axis)))
            {
                trail.test(format!("axis {name}: owner and region are the same for all {name}, broadcast"));
                broadcast.push(axis);
            } else {
                trail.test(format!("axis {name}: neither aligned nor broadcast"));
                other.push(axis);
            }
        }
        let free = |root: &Expr| broadcast.iter().all(|&axis| !root.mentions(Symbol::Coordinate(AxisId(axis))));
        if other.is_empty() && broadcast.iter().all(|&axis| free(&from[axis])) {
            let root = broadcast.iter().map(|&axis| from[axis].clone()).collect();
            trail.proved(Property::Residency, owned_there);
            return Ok(Leg::collective(broadcast, Owners::One(root)).into());
        }
        if may_shift && let Some(route) = self.shift(need, &other, trail)? {
            return Ok(route);
        }
        let route = self.permute(need, from, &broadcast, trail)?;
        if route.legs.iter().any(|leg| matches!(leg, Leg::Permute { .. })) {
            trail.proved(Property::Residency, owned_there);
        }
        Ok(route)
    }

    fn rank(&self, coordinates: &[Expr]) -> String {
        let name = |symbol| match symbol {
            Symbol::Coordinate(AxisId(axis)) => self.names(&[axis]),
            Symbol::Counter(number) => self.nest().node(self.nest().inside(Depth(0))[number.0]).name.to_string(),
        };
        joined(coordinates.iter().map(|coordinate| coordinate.show(&name)), ", ")
    }

    /// Iterations to the coordinate of the rank that runs them.
    pub(crate) fn own_coordinate(&self, depth: Depth, axis: usize) -> IslResult<Relation> {
        let own = Expr::symbol(Symbol::Coordinate(AxisId(axis)));
        self.relation(&self.relations.points(depth, &[own], &[]))
    }

    /// A shift, if the region that a rank needs in the next iteration is the one that a neighbour holds in this one.
    fn shift(&self, need: &Need<'_>, axes: &[usize], trail: &mut Trail) -> IslResult<Option<Route>> {
        let Some(counter) = need.depth.0.checked_sub(1).map(CounterId) else { return Ok(None) };
        let extent = self.ranges.counters[counter.0];
        let symbol = Symbol::Counter(counter);
        if extent < 2 || !need.region.mentions(symbol) {
            return Ok(None);
        }
        let next = self.relation(&self.relations.next(need.depth))?;
        let before_last = (Expr::symbol(symbol), Expr::constant(extent - 1));
        let early = self.relation(&self.relations.points(need.depth, &[], &[before_last]))?;
        for &axis in axes {
            let Some(by) = self.distance(need.region, axis, counter) else { continue };
            // Ranges that neither the step nor the neighbour changes are the same on both sides.
            let changing = [symbol, Symbol::Coordinate(AxisId(axis))];
            let changes = |dim: usize| {
                let (low, high) = &need.region.ranges[dim];
                let sizes = need.region.blocks[dim].as_ref().map(|blocks| &blocks.size);
                let exprs = [low, high].into_iter().chain(sizes);
                exprs.into_iter().any(|expr| changing.iter().any(|&symbol| expr.mentions(symbol)))
            };
            let region = need.region.restricted(changes);
            let moving = self.needed(need.depth, &region)?;
            let neighbours = self.relation(&self.relations.neighbour(need.depth, axis, by))?;
            let held = neighbours.then(&moving)?.restrict(&early)?;
            let name = self.names(&[axis]);
            if next.then(&moving)?.is_equal(&held)? {
                trail.test(format!(
                    "axis {name}: the next region is the one that the neighbour at {name} + {by} holds now, shift"
                ));
                let region = need.needs_owner(counter, &self.ranges);
                let (place, this) = if need.written { ("last", "in the last") } else { ("first", "in the first") };
                trail.test(format!("the {place} iteration on its own:"));
                let mut start = Trail::default();
                // The tile is forwarded to ranks that read other parts of it.
                let first = Need { depth: Depth(counter.0), region: &region, reads: &[], ..*need };
                let first = self.route_of(&first, false, &mut start)?;
                trail.tests.extend(start.tests.into_iter().map(|test| format!("  {test}")));
                let first_proved = start.proved.into_iter();
                trail.proved.extend(first_proved.map(|(of, claim)| (of, format!("{this} iteration {claim}"))));
                let next = format!(
                    "in each later one it is the tile that the neighbour at {name} + {by} held in the previous iteration"
                );
                trail.proved(Property::Residency, next);
                return Ok(Some(first.then_shift(Shift { axis: AxisId(axis), by, counter })));
            }
            trail.test(format!(
                "axis {name}: the next region is not the one that the neighbour at {name} + {by} holds now"
            ));
        }
        Ok(None)
    }

    /// The distance of the neighbour that holds the next region, from a few samples; isl decides whether it holds everywhere.
    fn distance(&self, region: &Region, axis: usize, CounterId(counter): CounterId) -> Option<i64> {
        let extent = self.ranges.coordinates[axis];
        let boxes = |coordinates: &[i64], counters: &[i64]| -> Vec<(i64, i64)> {
            region.ranges.iter().map(|(a, b)| (a.eval(coordinates, counters), b.eval(coordinates, counters))).collect()
        };
        let mut counters = vec![0; self.ranges.counters.len()];
        let coordinates = vec![0; self.ranges.coordinates.len()];
        let now = |by: i64| {
            let mut there = coordinates.clone();
            there[axis] = by.rem_euclid(extent);
            there
        };
        let held: Vec<_> = {
            let zero = counters.clone();
            // Beyond a few neighbours, a shift is not cheaper than a permutation.
            let reach = (extent / 2).min(64);
            let near = (1..=reach).flat_map(|by| [by, -by]);
            near.map(|by| (by, boxes(&now(by), &zero))).collect()
        };
        counters[counter] = 1;
        let wanted = boxes(&coordinates, &counters);
        held.into_iter().find(|(_, held)| *held == wanted).map(|(by, _)| by)
    }

    /// A permutation: each rank sends one tile and receives one; `same` are the axes along which region and owner do not change.
    fn permute(&self, need: &Need<'_>, from: Vec<Expr>, same: &[usize], trail: &mut Trail) -> IslResult<Route> {
        let seen = self.samples.as_ref().map(|samples| samples.are_distinct(need, &from));
        let timed = || self.timed(need.depth, &from)?.restrict(&self.needed(need.depth, need.region)?);
        if !seen.map_or_else(|| timed()?.is_injective(), Ok)? {
            trail.test("one owner serves several ranks at a time");
            if let Some(route) = self.composed(need, &from, same, trail)? {
                return Ok(route);
            }
            return self.exchange(need, trail);
        }
        trail.test("each owner serves one rank at a time");
        match self.inverse(need.depth, &from, &[], &timed()?)? {
            Some(to) => {
                trail.test("each rank sends one tile and receives one: permute");
                trail.proved(Property::Matching, "the rank that a tile is sent to is the one that receives it");
                Ok(Leg::Permute { owner: from, served: to }.into())
            }
            None => {
                trail.test("no closed form of the rank that it serves");
                self.exchange(need, trail)
            }
        }
    }

    /// Iterations to the rank at these coordinates, and the counters.
    pub(crate) fn timed(&self, depth: Depth, coordinates: &[Expr]) -> IslResult<Relation> {
        let counters = (0..depth.0).map(|n| Expr::symbol(Symbol::Counter(CounterId(n))));
        let values: Vec<_> = coordinates.iter().cloned().chain(counters).collect();
        self.relation(&self.relations.points(depth, &values, &[]))
    }

    /// The closed form of the rank that maps to this one, if `timed` maps iterations to (rank, counters) as `from` says.
    /// Along the axes in `kept`, both have the same coordinate.
    pub(crate) fn inverse(
        &self,
        depth: Depth,
        from: &[Expr],
        kept: &[usize],
        timed: &Relation,
    ) -> IslResult<Option<Vec<Expr>>> {
        let Some(to) = invert(from, kept, &self.ranges) else { return Ok(None) };
        let axes = (0..self.nest().distributed).map(|axis| Expr::symbol(Symbol::Coordinate(AxisId(axis))));
        let same = self.timed(depth, &axes.collect::<Vec<_>>())?;
        Ok(timed.then(&self.timed(depth, &to)?)?.is_subset(&same)?.then_some(to))
    }

    /// The route from several owners: an all-gather along some axes, or an exchange.
    ///
    /// Readers that differ along these axes alone need the same region from the same owners, whatever part of it each owner
    /// has: where an axis replicates the array, the owner's coordinate is the reader's, so it is aligned.
    fn gather(&self, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
        let mut axes = Vec::new();
        let is_aligned = self.aligned(need, WhichOwners::Source);
        for axis in 0..self.nest().distributed {
            let name = self.names(&[axis]);
            if is_aligned(axis)? {
                trail.test(format!("axis {name}: the owners' coordinate is the reader's, aligned"));
            } else if need.region.mentions(Symbol::Coordinate(AxisId(axis))) {
                trail.test(format!("axis {name}: neither aligned, nor the same region for all {name}"));
                return self.exchange(need, trail);
            } else {
                trail.test(format!("axis {name}: the region is the same for all {name}"));
                axes.push(axis);
            }
        }
        let names = self.names(&axes);
        trail.test(format!("ranks along {names} own it together: all-gather"));
        let claim = format!("the owners of the tile differ from its readers along {names} alone");
        trail.proved(Property::Residency, claim);
        Ok(Leg::collective(axes, Owners::Parts).into())
    }
}

#[cfg(test)]
mod tests;
