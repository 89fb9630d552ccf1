//! Answers questions about routes instead of isl, by enumerating ranks and steps: all of them if they are few, a sample if
//! they are many.
//!
//! An answer from all ranks and steps is the one that isl would give, and one from a sample is a guess. So nothing is proved
//! here: the result is priced, to see whether it is worth a proof. Rare questions are left to isl.

use crate::need::{Need, WhichOwners};
use crate::nest::Depth;
use polyshard_layout::{Along, AxisSource, DimLayout, Neighbours, Reach, Sharding, Stencil, gcd};
use polyshard_program::{Expr, Ranges, Region};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// Maximum number of ranks times steps that are all enumerated.
const ALL: u64 = 1 << 9;

/// Minimum size of a sample of more: points at the ends of loops, and points over all their values.
const ENDS: usize = 24;
const SOME: i64 = 48;

/// Maximum number of ranks times steps in which ranks are compared with each other.
const COMPARED: usize = 1 << 14;

/// Maximum number of owners of one part that are enumerated.
const MOST_OWNERS: usize = 1 << 12;

/// Samples of ranks in steps.
pub(crate) struct Samples {
    ranges: Ranges,
    /// By depth, computed on first use.
    points: Vec<OnceCell<Vec<Point>>>,
}

/// A rank in a step.
#[derive(Clone)]
struct Point {
    rank: Vec<usize>,
    coordinates: Vec<i64>,
    counters: Vec<i64>,
}

impl Samples {
    pub(crate) fn new(ranges: &Ranges) -> Self {
        Self { ranges: ranges.clone(), points: vec![OnceCell::new(); ranges.counters.len() + 1] }
    }

    fn at(&self, Depth(depth): Depth) -> &[Point] {
        self.points[depth].get_or_init(|| points(&self.ranges, depth))
    }

    /// The parts of a region, each with its rank and step.
    fn parts<'a>(&'a self, depth: Depth, region: &'a Region) -> impl Iterator<Item = (&'a Point, Vec<Along>)> {
        self.at(depth).iter().filter_map(|point| Some((point, region.at(&point.coordinates, &point.counters)?)))
    }

    /// Whether every rank's part is owned by the rank at the coordinates `owner`; without `owner`, by the rank itself.
    pub(crate) fn all_own(&self, need: &Need<'_>, owner: Option<&[Expr]>) -> bool {
        let extents = &self.ranges.coordinates;
        self.parts(need.depth, need.region).all(|(point, part)| {
            let at = owner.map(|owner| -> Option<Vec<usize>> {
                let at = owner.iter().map(|at| at.eval(&point.coordinates, &point.counters));
                at.zip(extents).map(|(at, &extent)| usize::try_from(at).ok().filter(|_| at < extent)).collect()
            });
            let count = part.iter().map(Along::distinct).fold(1, u64::saturating_mul);
            let owns = |rank: &[usize]| need.sharding.owned_of(rank, &part) == count;
            at.map_or_else(|| owns(&point.rank), |at| at.is_some_and(|at| owns(&at)))
        })
    }

    /// Whether an expression is the own coordinate of each rank that needs anything.
    pub(crate) fn are_own(&self, need: &Need<'_>, axis: usize, root: &Expr) -> bool {
        let own = |(point, _): (&Point, _)| root.eval(&point.coordinates, &point.counters) == point.coordinates[axis];
        self.parts(need.depth, need.region).all(own)
    }

    /// Whether no two ranks that need anything name the same rank in the same step.
    pub(crate) fn are_distinct(&self, need: &Need<'_>, from: &[Expr]) -> bool {
        let ranks = points(&Ranges { counters: Vec::new(), ..self.ranges.clone() }, 0);
        let steps: BTreeSet<_> = self.at(need.depth).iter().map(|point| &point.counters).collect();
        steps.into_iter().take((COMPARED / ranks.len().max(1)).max(2)).all(|counters| {
            let mut named = BTreeSet::new();
            let readers = ranks.iter().filter(|rank| need.region.at(&rank.coordinates, counters).is_some());
            readers
                .map(|rank| from.iter().map(|at| at.eval(&rank.coordinates, counters)).collect::<Vec<_>>())
                .all(|owner| named.insert(owner))
        })
    }

    /// Whether the first of two regions is inside of the second, which has no gaps.
    pub(crate) fn are_inside(&self, depth: Depth, inner: &Region, outer: &Region) -> bool {
        self.parts(depth, inner).all(|(point, part)| {
            let outer = outer.at(&point.coordinates, &point.counters);
            outer.is_some_and(|outer| outer.iter().zip(&part).all(|(outer, inner)| outer.contains(inner)))
        })
    }

    /// The axes along which all ranks own the same elements, if all owners count; `None` if that takes too long to find out.
    fn everywhere(&self, need: &Need<'_>, which: WhichOwners) -> Option<Vec<bool>> {
        let extents = &self.ranges.coordinates;
        let partial = need.sharding.partial();
        let mut everywhere = vec![false; extents.len()];
        for (axis, source) in need.sharding.sources() {
            match source {
                AxisSource::Reader if which == WhichOwners::Every => everywhere[*axis] = !partial.contains(axis),
                _ if which == WhichOwners::Every && source.repeats(extents[*axis] as usize) => return None,
                _ => {}
            }
        }
        Some(everywhere)
    }

    /// For each axis, whether all owners of each rank's part have the rank's coordinate; `None` if that takes too long to find out.
    pub(crate) fn are_aligned(&self, need: &Need<'_>, which: WhichOwners) -> Option<Vec<bool>> {
        let (extents, everywhere) = (&self.ranges.coordinates, self.everywhere(need, which)?);
        let mut aligned = vec![true; extents.len()];
        for (point, part) in self.parts(need.depth, need.region) {
            for owner in owners(need.sharding, &point.rank, &part)? {
                for (axis, is_aligned) in aligned.iter_mut().enumerate() {
                    *is_aligned &= if everywhere[axis] { extents[axis] == 1 } else { owner[axis] == point.rank[axis] };
                }
            }
            if !aligned.contains(&true) {
                break;
            }
        }
        Some(aligned)
    }

    /// Whether all owners of each rank's part are in reach, where a star is of sources alone; `None` if that takes too long to
    /// find out.
    pub(crate) fn are_within(&self, need: &Need<'_>, which: WhichOwners, reach: &Neighbours) -> Option<bool> {
        let extents = &self.ranges.coordinates;
        let everywhere = self.everywhere(need, which)?;
        let near = |reach: &Reach, own: i64, owner: i64, extent: i64| match *reach {
            Reach::All => true,
            Reach::Within { low, high } => (low..=high).contains(&(owner - own)),
            Reach::Around { low, high } => (owner - own - low).rem_euclid(extent) <= high.saturating_sub(low),
        };
        for (point, part) in self.parts(need.depth, need.region) {
            for owner in owners(need.sharding, &point.rank, &part)? {
                let is_apart = |(owner, own): &(&usize, &usize)| owner != own;
                if reach.stencil == Stencil::Star && owner.iter().zip(&point.rank).filter(is_apart).count() > 1 {
                    return Some(false);
                }
                for (axis, (reach, &extent)) in reach.along.iter().zip(extents).enumerate() {
                    let own = point.coordinates[axis];
                    let is_near = match everywhere[axis] {
                        true => (0..extent).all(|owner| near(reach, own, owner, extent)),
                        false => near(reach, own, owner[axis] as i64, extent),
                    };
                    if !is_near {
                        return Some(false);
                    }
                }
            }
        }
        Some(true)
    }
}

/// Ranks in steps of the first `depth` loops.
fn points(ranges: &Ranges, depth: usize) -> Vec<Point> {
    let axes = ranges.coordinates.len();
    let extents = [&ranges.coordinates[..], &ranges.counters[..depth]].concat();
    if extents.iter().any(|&extent| extent < 1) {
        return Vec::new();
    }
    let all = extents.iter().fold(1u64, |all, &extent| all.saturating_mul(extent as u64));
    let point = |at: Vec<i64>| {
        let mut counters = at[axes..].to_vec();
        counters.resize(ranges.counters.len(), 0);
        let coordinates = at[..axes].to_vec();
        Point { rank: coordinates.iter().map(|&at| at as usize).collect(), coordinates, counters }
    };
    if all <= ALL {
        let digits = |mut number: u64| {
            let digit = |&extent: &i64| {
                let digit = number % extent as u64;
                number /= extent as u64;
                digit as i64
            };
            extents.iter().map(digit).collect()
        };
        return (0..all).map(|number| point(digits(number))).collect();
    }
    // First both ends of each loop and the values next to them, in many combinations, the same on each call.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % below
    };
    let mut end = |extent: i64| {
        let from = (next(2) as i64).min(extent - 1);
        if next(2) == 0 { from } else { extent - 1 - from }
    };
    let ends = (0..ENDS).map(|_| extents.iter().map(|&extent| end(extent)).collect());
    // Then every value of each loop, as long as there are not too many: in as many steps as it has values, each once.
    let most = extents.iter().copied().max().unwrap_or(1).clamp(SOME, ALL as i64);
    let strides: Vec<i64> = (1..).step_by(2).zip(&extents).map(|(least, &extent)| coprime(least, extent)).collect();
    let value = |nth: i64, (&extent, stride): (&i64, &i64)| (nth % extent * (stride % extent) + nth / extent) % extent;
    let values = (0..most).map(|nth| extents.iter().zip(&strides).map(|loops| value(nth, loops)).collect());
    ends.chain(values).map(point).collect()
}

/// The first number not below `least` that is coprime to another.
fn coprime(least: i64, with: i64) -> i64 {
    (least..).find(|&number| gcd(number, with) == 1).unwrap_or(1)
}

/// The owners from which a rank reads a part, perhaps some of them twice; `None` if there are too many.
fn owners(sharding: &Sharding, reader: &[usize], part: &[Along]) -> Option<Vec<Vec<usize>>> {
    let dims = sharding.dims().iter().zip(sharding.shape()).zip(part);
    let firsts: Vec<Vec<usize>> =
        dims.map(|((layout, &extent), along)| firsts(layout, extent, along)).collect::<Option<_>>()?;
    if firsts.iter().any(Vec::is_empty) {
        return Some(Vec::new());
    }
    if firsts.iter().try_fold(1usize, |all, firsts| all.checked_mul(firsts.len())).is_none_or(|all| all > MOST_OWNERS) {
        return None;
    }
    let mut elements = vec![Vec::new()];
    for firsts in &firsts {
        let longer = |element: Vec<usize>| firsts.iter().map(move |&first| [&element[..], &[first]].concat());
        elements = elements.into_iter().flat_map(longer).collect();
    }
    Some(elements.into_iter().map(|element| sharding.owner(reader, &element)).collect())
}

/// One index of each block of a dimension that a part overlaps; `None` if there are too many.
fn firsts(layout: &DimLayout, extent: usize, along: &Along) -> Option<Vec<usize>> {
    let mut firsts = Vec::new();
    for run in along.elements(extent) {
        let mut index = run.start;
        while index < run.end {
            if firsts.len() == MOST_OWNERS {
                return None;
            }
            firsts.push(index);
            index = layout.end_of_block(index).min(extent);
        }
    }
    Some(firsts)
}
