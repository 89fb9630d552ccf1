//! Tiles whose region is read where the ranks that own it have it: no message, and no copy if it is one box of one shard.

use super::{Held, InPlace, Tile, owned, room};
use crate::layout::Sharding;
use crate::subarray::{Place, Subarray, mail};
use crate::{Element, Group, Region, Result, Shards};
use std::convert::Infallible;
use std::rc::Rc;

/// A region in the memory of this rank's peers.
#[derive(Clone, Debug)]
pub(super) struct PeerTile {
    at: Source,
    /// The elements of it that this rank owns, as its readers see it.
    own: usize,
}

#[derive(Clone, Debug)]
enum Source {
    /// It is one box of one shard.
    OneBox(InPlace),
    /// It is in pieces, each with the rank that owns it.
    Pieces(Rc<[(usize, Subarray)]>),
}

/// Where a region is that takes no message.
pub(super) enum Near {
    /// It is empty.
    Empty,
    /// The tile holds it already.
    Held,
    /// It is read where it is.
    At(PeerTile),
}

impl<T: Element> Tile<T> {
    /// Where `region` of this rank's own shard is.
    pub(super) fn own(&mut self, source: Shards<'_, T>, region: &Region) -> Near {
        match region.is_empty() {
            true => Near::Empty,
            false => Near::At(self.known(region, || PeerTile::of_own(source, region))),
        }
    }

    /// Where `region` is, which the member `root` of a group owns, or, without a root, members together, and which they read all alike, if
    /// all see it. What this rank reads of others counts as received.
    pub(super) fn near(
        &mut self,
        source: Shards<'_, T>,
        group: &Group,
        root: Option<usize>,
        region: &Region,
    ) -> Option<Near> {
        if region.is_empty() || group.size() == 1 {
            return Some(self.own(source, region));
        }
        if !is_seen_in(source, group) {
            return None;
        }
        let found = self.known(region, || PeerTile::in_group(source, group, region));
        source.count(match root {
            None => region.distinct() - found.own,
            Some(root) if root == group.rank() => 0,
            Some(_) => region.len(),
        });
        Some(Near::At(found))
    }

    /// Where `region` is, which the world's rank `from` owns, if this rank sees it; it counts as received if that is another rank.
    pub(super) fn near_one(&mut self, source: Shards<'_, T>, from: usize, region: &Region) -> Option<Near> {
        let me = source.sharding().mesh().rank(source.coordinates());
        if region.is_empty() || from == me {
            return Some(self.own(source, region));
        }
        source.sees(from).then(|| {
            source.count(region.len());
            Near::At(self.known(region, || PeerTile::of_one(source, from, region)))
        })
    }

    /// Where `region` is in the shards of all ranks, if this one sees them all; it counts as received if it would have been.
    pub(super) fn anywhere(&mut self, source: Shards<'_, T>, region: &Region, is_received: bool) -> Option<Near> {
        if !source.are_everywhere() {
            return None;
        }
        if region.is_empty() {
            return Some(Near::Empty);
        }
        if is_received {
            source.count(region.len());
        }
        Some(Near::At(self.known(region, || PeerTile::anywhere(source, region))))
    }

    /// Where `region` is known to be, or `find` says that it is.
    fn known(&mut self, region: &Region, find: impl FnOnce() -> PeerTile) -> PeerTile {
        let Ok(found) = self.found.get(region, || Ok::<_, Infallible>(find()));
        found.clone()
    }

    /// Holds `region` from where it is: without a copy if it is one box of a shard.
    pub(super) fn hold_near(&mut self, source: Shards<'_, T>, region: &Region, near: Near) -> Result<()> {
        match near {
            Near::Empty => self.held = Held::Nothing,
            Near::Held => {}
            Near::At(PeerTile { at: Source::OneBox(place), .. }) => {
                source.block_of(place.rank)?;
                self.held = Held::InPlace(region.clone(), place);
            }
            Near::At(PeerTile { at: Source::Pieces(pieces), .. }) => {
                let buffer = room(&mut self.buffer, region);
                for (rank, piece) in &*pieces {
                    piece.copy(Place::Block, source.block_of(*rank)?, Place::Region, buffer);
                }
                self.held = Held::Buffer(region.clone());
            }
        }
        Ok(())
    }
}

impl PeerTile {
    /// A region of this rank's own shard.
    fn of_own<T: Element>(source: Shards<'_, T>, region: &Region) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let own = owned(source.array(), mine, region);
        Self { own: own.len(), at: Source::of(sharding.mesh().rank(mine), own, sharding, mine, region) }
    }

    /// A region that the rank `from` owns.
    fn of_one<T: Element>(source: Shards<'_, T>, from: usize, region: &Region) -> Self {
        let owner = || source.sharding().mesh().coordinates(from);
        Self { own: 0, at: Source::find(source, region, || vec![(from, owned(source.array(), &owner(), region))]) }
    }

    /// A region, whoever of the world owns it.
    fn anywhere<T: Element>(source: Shards<'_, T>, region: &Region) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let mesh = sharding.mesh();
        let owners = || {
            let all = (0..mesh.size()).map(|rank| (rank, mesh.coordinates(rank)));
            owning(all.map(|(rank, owner)| (rank, Subarray::read(sharding, &owner, mine, region))))
        };
        Self { own: 0, at: Source::find(source, region, owners) }
    }

    /// A region that members of a group own, which read it all alike.
    fn in_group<T: Element>(source: Shards<'_, T>, group: &Group, region: &Region) -> Self {
        let in_world = |(member, part)| (group.world_rank(member), part);
        let parts = || owning(parts_of(source, group, region).map(in_world));
        let own = Subarray::read(source.sharding(), source.coordinates(), &group.coordinates(0), region).len();
        Self { own, at: Source::find(source, region, parts) }
    }
}

/// What each member of a group owns of a region, which they read all alike.
fn parts_of<T: Element>(
    source: Shards<'_, T>,
    group: &Group,
    region: &Region,
) -> impl Iterator<Item = (usize, Subarray)> {
    let part = move |member: usize| {
        let owner = group.coordinates(member);
        Subarray::read(source.sharding(), &owner, &group.coordinates(0), region)
    };
    (0..group.size()).map(move |member| (member, part(member)))
}

/// As [`parts_of`], where the parts are all of the region.
pub(super) fn all_parts<T: Element>(source: Shards<'_, T>, group: &Group, region: &Region) -> Vec<(usize, Subarray)> {
    let parts: Vec<_> = parts_of(source, group, region).collect();
    let (total, sharding) = (mail::total(&parts), source.sharding());
    assert!(
        total == region.distinct(),
        "the members of a group own {total} of the {} elements of {region} of an array sharded {sharding}; this is a bug in polyshard",
        region.distinct()
    );
    parts
}

impl Source {
    /// Where `region` is whose part `part` is all of it, of the rank at `owner`.
    fn of(rank: usize, part: Subarray, sharding: &Sharding, owner: &[usize], region: &Region) -> Self {
        if part.is_box() && !region.wraps() && !region.has_blocks() {
            return Self::OneBox(InPlace::new(rank, &part, sharding, owner));
        }
        Self::Pieces(Rc::new([(rank, part)]))
    }

    fn find<T: Element>(
        source: Shards<'_, T>,
        region: &Region,
        owners: impl FnOnce() -> Vec<(usize, Subarray)>,
    ) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let first: Vec<usize> = (0..region.ndim()).map(|dim| first(region, dim)).collect();
        let owner = sharding.owner(mine, &first);
        let part = Subarray::of(sharding, &owner, region);
        let rank = sharding.mesh().rank(&owner);
        if part.len() == region.distinct() {
            return Self::of(rank, part, sharding, &owner, region);
        }
        let parts = owners();
        let found: usize = parts.iter().map(|(_, part)| part.len()).sum();
        assert!(
            found == region.distinct(),
            "the owners of {region} own {found} of its {} elements, in an array sharded {sharding}; this is a bug in polyshard",
            region.distinct()
        );
        Self::Pieces(parts.into())
    }
}

/// Whether this rank and the other members of the group see each other's shards.
pub(super) fn is_seen_in<T: Element>(source: Shards<'_, T>, group: &Group) -> bool {
    source.are_everywhere() || (0..group.size()).all(|member| source.sees(group.world_rank(member)))
}

fn owning(parts: impl Iterator<Item = (usize, Subarray)>) -> Vec<(usize, Subarray)> {
    parts.filter(|(_, part)| part.len() > 0).collect()
}

/// The first element of a region along a dimension.
fn first(region: &Region, dim: usize) -> usize {
    let start = region.range(dim).start;
    region.period(dim).map_or(start, |period| start.rem_euclid(period)) as usize
}
