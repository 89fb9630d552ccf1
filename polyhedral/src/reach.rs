//! How far the owners of a region are from the rank that reads it, so that an exchange involves no other ranks.
//!
//! Owners are those of the corners of the region, or between them. The offset of a corner's owner from the reader is a closed form, and the
//! range of that form is proposed; isl decides whether all owners are within it. If it does not confirm this, owners may be any rank along
//! the axis. Tests: `polyhedral/tests/it/reach.rs`.

use crate::conditions::{Conditions, Form};
use crate::context::Context;
use crate::isl::{IslResult, Relation};
use crate::need::{Need, WhichOwners};
use crate::nest::Depth;
use crate::proofs::Trail;
use crate::source::Sources;
use polyshard_layout::{AxisSource, Digit, LevelLayout, MeshAxis, Neighbours, Reach, Stencil, joined, nearest_to_0};
use polyshard_program::{Access, AxisId, Expr, Leg, Property, Ranges, Region, Route, Symbol};

impl Context<'_> {
    /// Each owner sends each reader the elements that it needs: a halo from neighbours, or an exchange with any rank.
    pub(crate) fn exchange(&self, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
        let sources = self.sources(need.sharding);
        let reach = self.neighbours(need, trail)?;
        if sources.is_near(need.region, &reach.along) && self.is_inside(need)? {
            trail.test("a few neighbours own it, around the rank's own elements: halo");
            return Ok(Leg::Halo { reach }.into());
        }
        trail.test("exchange");
        Ok(Leg::exchange_with(reach).into())
    }

    /// Where owners are, and whether corners are read. Each access has its own region, smaller than the hull of all of them; if corners are
    /// not read, the hull is not tested.
    fn neighbours(&self, need: &Need<'_>, trail: &mut Trail) -> IslResult<Neighbours> {
        for along in self.sources(need.sharding).reach(need.region, WhichOwners::Source) {
            let far = along.iter().filter(|&&reach| reach != Reach::OWN).count();
            let may_be_star = need.reads.len() > 1 && far > 1;
            if may_be_star && self.is_along_lines(need, &along)? {
                let offsets = self.shown_offsets(&along);
                if !offsets.is_empty() {
                    let claim = format!("owners of the elements read are at the offsets {offsets} from the rank");
                    trail.test(claim.clone());
                    trail.proved(Property::Matching, claim);
                }
                let claim = "all elements read are owned by ranks that differ along one axis only";
                trail.test(format!("{claim}, so corners are left out"));
                trail.proved(Property::Residency, claim);
                return Ok(Neighbours::in_star(along));
            }
            if self.is_confirmed(need, WhichOwners::Source, &along, trail)? {
                if may_be_star {
                    trail.test("some elements read are owned by ranks that differ along several axes");
                }
                return Ok(Neighbours::in_box(along));
            }
        }
        Ok(Neighbours::in_box(vec![Reach::All; self.nest().distributed]))
    }

    /// Whether the owners of the elements that each access reads differ from the reader along one axis alone. Accesses whose owners differ
    /// along the same axis, which closed forms propose, are tested together.
    fn is_along_lines(&self, need: &Need<'_>, along: &[Reach]) -> IslResult<bool> {
        let sources = self.sources(need.sharding);
        let region = |reads: &[&Access]| self.region(reads, need.depth, need.sharding.shape());
        let line = |reads: &[&Access]| {
            let proposed = sources.clamped_reach(&region(reads), WhichOwners::Source, false);
            let far: Vec<_> = (0..along.len()).filter(|&axis| proposed[axis] != Reach::OWN).collect();
            let reach = |axis| if far.contains(&axis) { along[axis] } else { Reach::OWN };
            (far.len() < 2).then(|| (0..along.len()).map(reach).collect::<Vec<_>>())
        };
        let mut lines: Vec<(Vec<&Access>, Vec<Reach>)> = Vec::new();
        for &access in need.reads {
            let joined = lines.iter_mut().find_map(|on| {
                let reads = [&on.0[..], &[access]].concat();
                line(&reads).map(|reach| *on = (reads, reach))
            });
            if joined.is_none() {
                let Some(reach) = line(&[access]) else { return Ok(false) };
                lines.push((vec![access], reach));
            }
        }
        for (reads, reach) in lines {
            let region = &region(&reads);
            let read = Need { region, reads: &[], ..*need };
            if !self.is_within(&read, WhichOwners::Source, &Neighbours::in_box(reach))? {
                return Ok(false);
            }
            for access in reads {
                if self.samples.is_none() && !self.holds(region, need.depth, access)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Iterations to the owners of the elements that they need.
    pub(crate) fn owners(&self, need: &Need<'_>, which: WhichOwners) -> IslResult<Relation> {
        let sources = self.sources(need.sharding);
        self.relation(&match which {
            WhichOwners::Source => sources.relation(need.depth, need.region),
            WhichOwners::Every => sources.all_owners(need.depth, need.region),
        })
    }

    /// Whether the owners of the elements that a rank needs are within reach of it.
    fn is_within(&self, need: &Need<'_>, which: WhichOwners, reach: &Neighbours) -> IslResult<bool> {
        if let Some(samples) = &self.samples
            && let Some(within) = samples.are_within(need, which, reach)
        {
            return Ok(within);
        }
        self.owners(need, which)?.is_subset(&self.relation(&self.within(need.depth, reach))?)
    }

    /// The first proposed reach that isl confirms to contain all owners; otherwise all ranks.
    pub(crate) fn reach(&self, need: &Need<'_>, which: WhichOwners, trail: &mut Trail) -> IslResult<Vec<Reach>> {
        for proposed in self.sources(need.sharding).reach(need.region, which) {
            if self.is_confirmed(need, which, &proposed, trail)? {
                return Ok(proposed);
            }
        }
        Ok(vec![Reach::All; self.nest().distributed])
    }

    /// Whether the owners are within a reach, without a test if the reach is all ranks.
    fn is_confirmed(
        &self,
        need: &Need<'_>,
        which: WhichOwners,
        proposed: &[Reach],
        trail: &mut Trail,
    ) -> IslResult<bool> {
        if proposed.iter().all(|&reach| reach == Reach::All) {
            return Ok(true);
        }
        let claim = match &self.shown_offsets(proposed)[..] {
            "" => "owners have the rank's own coordinates".to_owned(),
            offsets => format!("owners are at the offsets {offsets} from the rank"),
        };
        let is_within = self.is_within(need, which, &Neighbours::in_box(proposed))?;
        if is_within {
            trail.test(claim.clone());
            trail.proved(Property::Matching, claim);
        } else {
            trail.test(format!("not all {claim}"));
        }
        Ok(is_within)
    }

    /// `x: -1..=1, y: any`, for the axes along which owners may have another coordinate.
    fn shown_offsets(&self, along: &[Reach]) -> String {
        let offsets = self.state.mesh.as_slice().iter().zip(along);
        joined(offsets.filter_map(|(axis, reach)| offsets_text(axis, *reach)), ", ")
    }

    /// Iterations to the ranks in reach.
    fn within(&self, depth: Depth, reach: &Neighbours) -> Conditions {
        let apart = |axis| self.within_along(depth, &reach.along, Some(axis));
        match reach.stencil {
            Stencil::Box => self.within_along(depth, &reach.along, None),
            Stencil::Star => {
                let all = (0..reach.along.len()).map(apart).reduce(Conditions::or);
                all.expect("a star is of some axes; this is a bug in polyshard")
            }
        }
    }

    /// Iterations to the ranks in reach; only those that differ along the axis `alone`, if it is given.
    fn within_along(&self, depth: Depth, reach: &[Reach], alone: Option<usize>) -> Conditions {
        let mut conditions = self.relations.iterations(depth, reach.len());
        for (axis, (reach, &extent)) in reach.iter().zip(&self.ranges.coordinates).enumerate() {
            if alone.is_some_and(|alone| alone != axis) {
                conditions.equal(&Form::output(axis), &Form::input(axis));
            }
            let owner = Form::output(axis);
            conditions.within(&owner, extent);
            let offset = owner.subtract(&Form::input(axis));
            match *reach {
                Reach::All => {}
                Reach::Within { low, high } => {
                    conditions.at_most(&Form::constant(low), &offset);
                    conditions.at_most(&offset, &Form::constant(high));
                }
                Reach::Around { low, high } => {
                    let steps = conditions.remainder(&offset.subtract(&Form::constant(low)), extent);
                    conditions.at_most(&steps, &Form::constant(high.saturating_sub(low)));
                }
            }
        }
        conditions
    }

    /// Whether each rank that needs anything needs all that it owns and that any rank needs.
    fn is_inside(&self, need: &Need<'_>) -> IslResult<bool> {
        let own: Vec<_> =
            (0..self.nest().distributed).map(|axis| Expr::symbol(Symbol::Coordinate(AxisId(axis)))).collect();
        let owned = self.relation(&self.sources(need.sharding).owned_by(need.depth, &own))?;
        let needed = self.needed(need.depth, need.region)?;
        if owned.is_subset(&needed)? {
            return Ok(true);
        }
        let by_any = needed.reverse()?;
        let owned = owned.restrict(&needed)?.reverse()?.restrict(&by_any)?.reverse()?;
        owned.is_subset(&needed)
    }
}

/// `x: -1..=1`; `None` if owners have the rank's own coordinate.
fn offsets_text(axis: &MeshAxis, reach: Reach) -> Option<String> {
    let name = axis.name;
    match reach.offsets() {
        _ if axis.extent == 1 => None,
        Some((0, 0)) => None,
        Some((low, high)) => Some(format!("{name}: {low}..={high}")),
        None => Some(format!("{name}: any")),
    }
}

/// The offsets of an index's owner, in blocks, at the low and at the high corner.
struct Offsets {
    low: Expr,
    high: Expr,
    /// By how many parts one of them may be too far, since it is across the end of the dimension.
    slack: i64,
}

impl Offsets {
    fn range(&self, slack: bool, ranges: &Ranges) -> (i64, i64) {
        let slack = if slack { self.slack } else { 0 };
        (self.low.bounds(ranges).0.saturating_sub(slack), self.high.bounds(ranges).1.saturating_add(slack))
    }
}

impl Sources<'_> {
    /// The offsets of the owners along each axis, as the corners of the region propose them.
    ///
    /// If a dimension wraps around, its last block may be short, or missing: then owners across the end may be farther away than their
    /// block numbers suggest, which is proposed second. The last proposal is anywhere, except along axes where owners have the reader's
    /// coordinate by definition.
    pub(crate) fn reach(&self, region: &Region, owners: WhichOwners) -> Vec<Vec<Reach>> {
        let mut proposed: Vec<_> = [false, true].map(|slack| self.clamped_reach(region, owners, slack)).into();
        let extents = &self.ranges.coordinates;
        let mut anywhere = vec![Reach::All; extents.len()];
        for (axis, source) in self.sharding.sources() {
            if extents[*axis] == 1 || self.is_own(*axis, source, owners) {
                anywhere[*axis] = Reach::OWN;
            }
        }
        proposed.push(anywhere);
        proposed.dedup();
        proposed
    }

    /// Whether owners have the reader's coordinate along an axis, wherever the element is.
    fn is_own(&self, axis: usize, source: &AxisSource, owners: WhichOwners) -> bool {
        let is_one = owners == WhichOwners::Source || self.sharding.partial().contains(&axis);
        is_one && matches!(source, AxisSource::Reader)
    }

    fn clamped_reach(&self, region: &Region, owners: WhichOwners, slack: bool) -> Vec<Reach> {
        let mut reach = self.reach_on(region, owners, slack, self.ranges);
        for (reach, &extent) in reach.iter_mut().zip(&self.ranges.coordinates) {
            let covers = reach.offsets().is_some_and(|(low, high)| high.saturating_sub(low) >= extent - 1);
            if covers && !is_one_step(*reach) {
                *reach = Reach::All;
            }
        }
        reach
    }

    /// Whether the reach covers neighbours only: less than an axis, or one step that would be one step on a larger mesh, too.
    fn is_near(&self, region: &Region, reach: &[Reach]) -> bool {
        let mut larger = self.ranges.clone();
        larger.coordinates.iter_mut().for_each(|extent| *extent += 1);
        let on_larger = self.reach_on(region, WhichOwners::Source, false, &larger);
        let near = |(axis, reach): (usize, &Reach)| {
            let Some((low, high)) = reach.offsets() else { return false };
            let on_any_mesh = is_one_step(*reach) && on_larger[axis].offsets() == Some((low, high));
            on_any_mesh || high - low + 1 < self.ranges.coordinates[axis]
        };
        reach.iter().enumerate().all(near)
    }

    fn reach_on(&self, region: &Region, owners: WhichOwners, slack: bool, ranges: &Ranges) -> Vec<Reach> {
        let extents = &self.ranges.coordinates;
        let mut reach = vec![Reach::OWN; extents.len()];
        for (axis, source) in self.sharding.sources() {
            if extents[*axis] == 1 {
                continue;
            }
            reach[*axis] = match source {
                _ if self.is_own(*axis, source, owners) => Reach::OWN,
                AxisSource::Reader | AxisSource::Pin(_) => Reach::All,
                AxisSource::Digit { digit, stride, extent } => {
                    let Some(offsets) = self.offsets(region, *digit, *stride, ranges) else { continue };
                    let (low, high) = offsets.range(slack, ranges);
                    let level = self.level(*digit);
                    // The first block follows the last one in the next outer block, in the next turn or around the end.
                    let ends = digit.level == 0 && region.periods[digit.dim].is_none() && !level.cyclic;
                    if ends && stride.saturating_mul(*extent) == level.parts as i64 {
                        Reach::Within { low, high }
                    } else {
                        Reach::Around { low, high }
                    }
                }
                AxisSource::Skew { digits, rest, modulus, .. } if *modulus == extents[*axis] => {
                    let digits = digits.iter().map(|&(digit, factor)| {
                        let (low, high) = self.offsets(region, digit, 1, ranges)?.range(slack, ranges);
                        Some((low, high, factor))
                    });
                    let others = rest.terms.iter().map(|&(other, factor)| {
                        let (low, high) = reach[other].offsets()?;
                        Some((low, high, factor))
                    });
                    let sum = digits.chain(others).try_fold((0i64, 0i64), |(low, high), term| {
                        let (from, to, factor) = term?;
                        let factor = nearest_to_0(factor, *modulus);
                        let (a, b) = (factor.checked_mul(from)?, factor.checked_mul(to)?);
                        Some((low.checked_add(a.min(b))?, high.checked_add(a.max(b))?))
                    });
                    sum.map_or(Reach::All, |(low, high)| Reach::Around { low, high })
                }
                AxisSource::Skew { .. } => Reach::All,
            };
            // Offsets beyond the mesh are meaningless, and an empty range would mean that no rank is an owner.
            let far = i64::MAX / 4;
            if reach[*axis].offsets().is_some_and(|(low, high)| low < -far || high > far || low > high) {
                reach[*axis] = Reach::All;
            }
        }
        reach
    }

    fn level(&self, digit: Digit) -> &LevelLayout {
        &self.sharding.dims()[digit.dim].levels()[digit.level]
    }

    /// Offsets of `floor(digit / stride)` from the rank's own, which is its coordinate up to the axis' extent.
    fn offsets(&self, region: &Region, digit: Digit, stride: i64, ranges: &Ranges) -> Option<Offsets> {
        let layout = &self.sharding.dims()[digit.dim];
        let LevelLayout { at, parts, block, cyclic } = self.level(digit);
        let (parts, block) = (*parts as i64, *block as i64);
        let (low, high) = &region.ranges[digit.dim];
        let size = block.checked_mul(stride)?;
        // Where blocks of the region are whole turns apart, all have the owners of the first one.
        let turn = block.saturating_mul(parts);
        let turns = |stride: i64| *cyclic && digit.level == 0 && stride % turn == 0;
        let first = region.blocks[digit.dim].as_ref().filter(|blocks| turns(blocks.stride));
        let high = &first.map_or_else(|| high.clone(), |blocks| low.add(&blocks.size));
        // The rank's own block is inside its blocks of the outer levels.
        let outer = layout.levels()[..digit.level].iter();
        let start = outer
            .fold(Expr::of_rank(at, self.ranges).div(stride, self.ranges).multiply(size), |start, level| {
                start.add(&Expr::of_rank(&level.at, self.ranges).multiply(level.block as i64))
            });
        let from_own = |index: &Expr| {
            let relative = index.subtract(&start);
            // Whole turns of a cyclic level lead back to the same ranks.
            let turn = size.saturating_mul((parts / stride).max(1));
            let relative = if *cyclic { relative.without_multiples(turn) } else { relative };
            self.quotient(&relative, size, ranges)
        };
        // Where the last block is short or missing, the first is nearer to the end than its number says.
        let divided = match digit.level {
            0 => region.periods[digit.dim],
            level => Some(layout.levels()[level - 1].block as i64),
        };
        let missing = divided.map_or(0, |divided| parts.saturating_mul(block).saturating_sub(divided).max(0));
        let slack = missing / size + i64::from(missing % size != 0);
        Some(Offsets { low: from_own(low), high: from_own(&high.offset_by(-1)), slack })
    }

    /// `floor(expr / divisor)`, computed for each operand of a minimum or maximum, so that its bounds are tight. `ranges`, those of this
    /// mesh or of a larger one, may decide which operand it is.
    fn quotient(&self, expr: &Expr, divisor: i64, ranges: &Ranges) -> Expr {
        match expr.branches() {
            None => expr.div(divisor, self.ranges),
            Some(([a, b], is_max)) => {
                let (a, b) = (self.quotient(&a, divisor, ranges), self.quotient(&b, divisor, ranges));
                if is_max { Expr::max(&a, &b, ranges) } else { Expr::min(&a, &b, ranges) }
            }
        }
    }
}

/// Whether owners are next to the rank, or the rank itself.
pub(crate) fn is_one_step(reach: Reach) -> bool {
    reach.offsets().is_some_and(|(low, high)| low >= -1 && high <= 1)
}
