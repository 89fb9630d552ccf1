//! Tiles whose region is read where the ranks that own it have it: no message, and no copy if it is one box of one shard.

use super::{Held, InPlace, Tile, owned, room};
use crate::layout::Sharding;
use crate::subarray::{Place, Subarray};
use crate::{Element, Group, Region, Result, Shards};
use std::convert::Infallible;
use std::rc::Rc;

/// A region in the memory of this rank's peers.
#[derive(Clone, Debug)]
pub(super) struct PeerTile {
    at: Source,
    /// The elements of it that this rank owns, as its readers see it.
    pub(super) own: usize,
}

#[derive(Clone, Debug)]
enum Source {
    /// It is one box of one shard.
    OneBox(InPlace),
    /// It is in pieces, each with the rank that owns it.
    Pieces(Rc<[(usize, Subarray)]>),
}

impl<T: Element> Tile<T> {
    /// Holds `region`, which is not empty, out of the shard of the rank `from`, which this rank sees. Moves no data if it is one box
    /// there; else it is copied.
    ///
    /// # Panics
    /// If that rank does not own all of it: a bug of polyshard.
    pub(super) fn read(&mut self, source: Shards<'_, T>, from: usize, region: &Region) -> Result<()> {
        self.take(source, region, || PeerTile::of_one(source, from, region)).map(drop)
    }

    /// Holds `region` out of this rank's own shard: where it is if it is one box there and in the array, else a copy of it. Moves
    /// no data between ranks.
    pub(super) fn hold_or_copy(&mut self, source: Shards<'_, T>, region: &Region) -> Result<()> {
        if region.is_empty() {
            self.held = Held::Nothing;
            return Ok(());
        }
        self.take(source, region, || PeerTile::of_own(source, region)).map(drop)
    }

    /// Holds `region` from where it is known to be, or `find` says that it is.
    fn take(&mut self, source: Shards<'_, T>, region: &Region, find: impl FnOnce() -> PeerTile) -> Result<usize> {
        let found = self.known(region, find);
        let own = found.own;
        self.hold_at(source, region, found)?;
        Ok(own)
    }

    /// Where `region` is known to be, or `find` says that it is.
    pub(super) fn known(&mut self, region: &Region, find: impl FnOnce() -> PeerTile) -> PeerTile {
        let Ok(found) = self.found.get(region, || Ok::<_, Infallible>(find()));
        found.clone()
    }

    /// Holds `region` from where it is.
    pub(super) fn hold_at(&mut self, source: Shards<'_, T>, region: &Region, found: PeerTile) -> Result<()> {
        match found.at {
            Source::OneBox(place) => {
                source.block_of(place.rank)?;
                self.held = Held::InPlace(region.clone(), place);
            }
            Source::Pieces(pieces) => {
                let buffer = room(&mut self.buffer, region);
                for (rank, piece) in &*pieces {
                    piece.copy(Place::Block, source.block_of(*rank)?, Place::Region, buffer);
                }
                self.held = Held::Buffer(region.clone());
            }
        }
        Ok(())
    }

    /// As [`read`](Self::read), whoever the owners are, for an array whose shards all ranks see; counts the region as received
    /// if it would have been.
    pub(super) fn read_anywhere(&mut self, source: Shards<'_, T>, region: &Region, is_received: bool) -> Result<()> {
        if region.is_empty() {
            self.held = Held::Nothing;
            return Ok(());
        }
        if is_received {
            source.count(region.len());
        }
        self.take(source, region, || PeerTile::anywhere(source, region)).map(drop)
    }

    /// As [`read`](Self::read), from members of a group, which read it all alike: pieces are copied from where they are. Returns the
    /// elements that this rank is the one to send.
    pub(super) fn read_in_group(&mut self, source: Shards<'_, T>, group: &Group, region: &Region) -> Result<usize> {
        self.take(source, region, || PeerTile::in_group(source, group, region))
    }
}

impl PeerTile {
    /// A region of this rank's own shard.
    pub(super) fn of_own<T: Element>(source: Shards<'_, T>, region: &Region) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let own = owned(source.array(), mine, region);
        Self { own: own.len(), at: Source::of(sharding.mesh().rank(mine), own, sharding, mine, region) }
    }

    /// A region that the rank `from` owns.
    pub(super) fn of_one<T: Element>(source: Shards<'_, T>, from: usize, region: &Region) -> Self {
        let owner = || source.sharding().mesh().coordinates(from);
        Self { own: 0, at: Source::find(source, region, || vec![(from, owned(source.array(), &owner(), region))]) }
    }

    /// A region, whoever of the world owns it.
    pub(super) fn anywhere<T: Element>(source: Shards<'_, T>, region: &Region) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let mesh = sharding.mesh();
        let owners = || {
            let all = (0..mesh.size()).map(|rank| (rank, mesh.coordinates(rank)));
            owning(all.map(|(rank, owner)| (rank, Subarray::read(sharding, &owner, mine, region))))
        };
        Self { own: 0, at: Source::find(source, region, owners) }
    }

    /// A region that members of a group own, which read it all alike.
    pub(super) fn in_group<T: Element>(source: Shards<'_, T>, group: &Group, region: &Region) -> Self {
        let parts = || owning(parts_of(source, group, region));
        let own = Subarray::read(source.sharding(), source.coordinates(), &group.coordinates(0), region).len();
        Self { own, at: Source::find(source, region, parts) }
    }
}

/// What each member of a group owns of a region, which they read all alike, by its rank in the world.
pub(super) fn parts_of<T: Element>(
    source: Shards<'_, T>,
    group: &Group,
    region: &Region,
) -> impl Iterator<Item = (usize, Subarray)> {
    let part = move |member: usize| {
        let owner = group.coordinates(member);
        Subarray::read(source.sharding(), &owner, &group.coordinates(0), region)
    };
    (0..group.size()).map(move |member| (group.world_rank(member), part(member)))
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
            "the owners of {region} own {found} of its {} elements, in an array sharded {sharding}; this is a bug of polyshard",
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
    let start = region.ranges()[dim].start;
    region.period(dim).map_or(start, |period| start.rem_euclid(period)) as usize
}
