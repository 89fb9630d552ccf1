//! Routes of regions to tiles: from the memory of ranks that this one sees, or in messages from others.

use super::{Held, InPlace};
use crate::exchange::{Exchange, WithRank, all_found, owned, parts_of, total};
use crate::subarray::{Place, Subarray};
use crate::view::Ranges;
use crate::{Element, Group, Region, Shards};
use std::rc::Rc;

/// The route of a region to a tile, worked out once for all fetches.
#[derive(Debug, Default)]
pub(super) struct Fetch {
    pub(super) exchange: Exchange,
    /// The place of the whole region, if it is one box of one shard that this rank sees.
    pub(super) whole: Option<InPlace>,
    /// The indices that are read in place in this rank's shard; the exchange copies the others.
    interior: Option<Ranges>,
    /// The number of elements of the region that this rank supplies to the readers.
    pub(super) own: usize,
}

impl Fetch {
    /// The route of a region by this exchange; with `around`, the part that this rank owns is read in place, if it is one box of the array.
    pub(super) fn new<T: Element>(source: Shards<'_, T>, region: &Region, exchange: Exchange, around: bool) -> Self {
        let own: usize = exchange.keep.iter().map(|part| part.len()).sum();
        let mut fetch = Self { exchange, own, ..Self::default() };
        let Exchange { keep, receives, seen, .. } = &fetch.exchange;
        if receives.is_empty() {
            let kept = keep.iter().map(|part| (this_rank(source), part));
            let mut parts =
                seen.iter().map(|(rank, part)| (*rank, part)).chain(kept).filter(|(_, part)| part.len() > 0);
            if let (Some((rank, part)), None) = (parts.next(), parts.next()) {
                fetch.whole = whole(source, region, rank, part);
            }
        }
        if around && fetch.whole.is_none() {
            fetch.go_around(source, region);
        }
        fetch
    }

    /// The route of terms into shards.
    pub(super) fn of_terms(exchange: Exchange) -> Self {
        Self { exchange, ..Self::default() }
    }

    /// Reads this rank's own part in place in its shard, as far as it is one box of the array.
    fn go_around<T: Element>(&mut self, source: Shards<'_, T>, region: &Region) {
        let Some(interior) = interior(source, region) else { return };
        // Elements beyond the end of the array are copied, even if this rank owns them.
        let positions = interior.iter().zip(region.origin());
        let positions = positions.map(|(own, start)| (own.start - start) as usize..(own.end - start) as usize);
        let positions: Vec<_> = positions.collect();
        let keep = self.exchange.keep.iter().flat_map(|part| part.around(&positions));
        self.exchange.keep = keep.map(Rc::new).collect();
        self.interior = Some(interior);
    }

    /// The state of a tile whose buffer has all elements except those read in place in this rank's shard.
    pub(super) fn held(&self, region: &Region) -> Held {
        match &self.interior {
            Some(interior) => Held::Around(region.clone(), interior.clone()),
            None => Held::Buffer(region.clone()),
        }
    }

    /// Whether the region is one message, as it is.
    pub(super) fn is_one_message(&self, region: &Region) -> bool {
        let Exchange { keep, receives, seen, .. } = &self.exchange;
        let is_whole = |part: &Subarray| part.len() == region.len() && part.contiguous(Place::Region).is_some();
        keep.is_empty()
            && seen.is_empty()
            && matches!(&receives[..], [(_, part)] if is_whole(part))
            && !region.is_empty()
    }

    /// Whether this rank gets nothing from other ranks.
    pub(super) fn is_own(&self) -> bool {
        self.exchange.receives.is_empty() && self.exchange.seen.is_empty()
    }

    /// The route of a region that the rank `from` owns.
    pub(super) fn of_one<T: Element>(source: Shards<'_, T>, from: usize, region: &Region) -> Self {
        let owner = source.sharding().mesh().coordinates(from);
        Self::seen(source, region, vec![(from, Rc::new(owned(source.array(), &owner, region)))])
    }

    /// The route of a region of any owners in the world.
    pub(super) fn anywhere<T: Element>(source: Shards<'_, T>, region: &Region) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let mesh = sharding.mesh();
        let part = |rank| Subarray::read(sharding, &mesh.coordinates(rank), mine, region);
        Self::nearest(source, region, || (0..mesh.size()).map(|rank| (rank, part(rank))).collect())
    }

    /// The route of a region that the members of a group own, and that all of them read.
    pub(super) fn in_group<T: Element>(source: Shards<'_, T>, group: &Group, region: &Region) -> Self {
        let own = Subarray::read(source.sharding(), source.coordinates(), &group.coordinates(0), region).len();
        let parts = || {
            let parts = all_parts(source, group, region).into_iter().enumerate();
            parts.map(|(member, part)| (group.world_rank(member), part)).collect()
        };
        Self { own, ..Self::nearest(source, region, parts) }
    }

    /// The route of a region from the nearest rank that owns its first element, if that owns all of it, else from the `owners`.
    fn nearest<T: Element>(
        source: Shards<'_, T>,
        region: &Region,
        owners: impl FnOnce() -> Vec<(usize, Subarray)>,
    ) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let first: Vec<usize> = (0..region.ndim()).map(|dim| first(region, dim)).collect();
        let owner = sharding.owner(mine, &first);
        let part = Subarray::of(sharding, &owner, region);
        if part.len() == region.distinct() {
            return Self::seen(source, region, vec![(sharding.mesh().rank(&owner), Rc::new(part))]);
        }
        let parts = owners().into_iter().filter(|(_, part)| part.len() > 0);
        Self::seen(source, region, parts.map(|(rank, part)| (rank, Rc::new(part))).collect())
    }

    /// The route of a region of which this rank sees all parts.
    fn seen<T: Element>(source: Shards<'_, T>, region: &Region, parts: Vec<WithRank>) -> Self {
        all_found(total(&parts), region, source.sharding());
        let me = this_rank(source);
        let (own, seen): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(rank, _)| *rank == me);
        let keep = own.into_iter().map(|(_, part)| part).collect();
        Self::new(source, region, Exchange { me, keep, seen, ..Exchange::default() }, false)
    }
}

/// The place of `part`, owned by the rank `rank`, if it is the whole region and one box.
fn whole<T: Element>(source: Shards<'_, T>, region: &Region, rank: usize, part: &Subarray) -> Option<InPlace> {
    let is_whole = part.len() == region.distinct() && part.is_box() && !region.wraps() && !region.has_blocks();
    is_whole.then(|| {
        let owner = source.sharding().mesh().coordinates(rank);
        InPlace::new(rank, part, source.sharding(), &owner)
    })
}

/// The box of this rank's block that is inside the region, if block and region are boxes of the array and intersect.
fn interior<T: Element>(source: Shards<'_, T>, region: &Region) -> Option<Ranges> {
    let array = source.array();
    let whole = Subarray::of(source.sharding(), source.coordinates(), &Region::whole(array.shape()));
    let own = whole.region().filter(|own| !own.is_empty() && !region.has_blocks())?;
    let inside = (0..region.ndim()).map(|dim| {
        let (own, all) = (own.range(dim), region.range(dim));
        // Beyond the period, an index refers to another element.
        let end = region.period(dim).map_or(all.end, |period| all.end.min(period));
        Some(own.start.max(all.start)..own.end.min(end)).filter(|range| range.start < range.end)
    });
    inside.collect()
}

/// The part of a region that each member of a group owns, if all of them read it.
pub(super) fn all_parts<T: Element>(source: Shards<'_, T>, group: &Group, region: &Region) -> Vec<Subarray> {
    let reader = group.coordinates(0);
    parts_of(group, source.sharding(), region, |member| Subarray::read(source.sharding(), member, &reader, region))
}

/// Whether this rank and the other members of the group see each other's shards.
pub(super) fn is_seen_in<T: Element>(source: Shards<'_, T>, group: &Group) -> bool {
    source.are_everywhere() || (0..group.size()).all(|member| source.sees(group.world_rank(member)))
}

pub(super) fn this_rank<T: Element>(source: Shards<'_, T>) -> usize {
    source.sharding().mesh().rank(source.coordinates())
}

/// The first element of a region along a dimension.
fn first(region: &Region, dim: usize) -> usize {
    let start = region.range(dim).start;
    region.period(dim).map_or(start, |period| start.rem_euclid(period)) as usize
}
