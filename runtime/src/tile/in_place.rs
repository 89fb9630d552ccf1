//! Tiles whose region is read where the ranks that own it have it: no message, and no copy if it is one box of one shard.

use super::{Held, InPlace, Tile, room};
use crate::subarray::{Place, Subarray};
use crate::{Element, Group, Region, Result, Shards};

/// The most regions of which a tile keeps where they are.
const KEPT: usize = 1024;

impl<T: Element> Tile<T> {
    /// Holds `region`, which is not empty, out of shards that this rank sees. Moves no data if it is one box of one of them; else each
    /// piece is copied from where it is. `owners` are the ranks that own it, whatever else they own; they are asked for if
    /// not one of them has it all.
    ///
    /// # Panics
    /// If the owners do not own all of it: a bug of polyshard.
    pub(super) fn read(
        &mut self,
        source: Shards<'_, T>,
        region: &Region,
        owners: impl FnOnce() -> Vec<(usize, Subarray)>,
    ) -> Result<()> {
        if let Some(found) = self.known(region) {
            source.block_of(found.rank)?;
            self.held = Held::Peer(found);
            return Ok(());
        }
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let first: Vec<usize> = (0..region.ndim()).map(|dim| first(region, dim)).collect();
        let owner = sharding.owner(mine, &first);
        let part = Subarray::of(sharding, &owner, region);
        let rank = sharding.mesh().rank(&owner);
        if part.len() == region.distinct() {
            let block = source.block_of(rank)?;
            if part.is_box() && !region.wraps() && !region.has_blocks() {
                let found = InPlace::new(rank, region, &part, sharding, &owner);
                self.keep(found.clone());
                self.held = Held::Peer(found);
            } else {
                part.copy(Place::Block, block, Place::Region, room(&mut self.buffer, region));
                self.held = Held::Buffer(region.clone());
            }
            return Ok(());
        }
        let parts = owners();
        let found: usize = parts.iter().map(|(_, part)| part.len()).sum();
        assert!(
            found == region.distinct(),
            "the owners of {region} own {found} of its {} elements, in an array sharded {sharding}; this is a bug of polyshard",
            region.distinct()
        );
        let buffer = room(&mut self.buffer, region);
        for (rank, part) in &parts {
            part.copy(Place::Block, source.block_of(*rank)?, Place::Region, buffer);
        }
        self.held = Held::Buffer(region.clone());
        Ok(())
    }

    /// Returns where this region is, if it comes after the one before it as it did the last time.
    fn known(&mut self, region: &Region) -> Option<InPlace> {
        let at =
            [self.next, 0].into_iter().find(|&at| self.found.get(at).is_some_and(|found| found.region == *region))?;
        self.next = at + 1;
        Some(self.found[at].clone())
    }

    /// Keeps where a region is for the next time.
    fn keep(&mut self, found: InPlace) {
        if self.next >= KEPT {
            self.next = 0;
        }
        match self.found.get_mut(self.next) {
            Some(place) => *place = found,
            None => self.found.push(found),
        }
        self.next += 1;
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
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let mesh = sharding.mesh();
        self.read(source, region, || {
            let all = (0..mesh.size()).map(|rank| (rank, mesh.coordinates(rank)));
            owning(all.map(|(rank, owner)| (rank, Subarray::read(sharding, &owner, mine, region))))
        })
    }

    /// As [`read`](Self::read), from members of a group, which read it all alike.
    pub(super) fn read_in_group(&mut self, source: Shards<'_, T>, group: &Group, region: &Region) -> Result<()> {
        let sharding = source.sharding();
        let reader = group.coordinates(0);
        let parts = || {
            let part = |member| {
                (group.world_rank(member), Subarray::read(sharding, &group.coordinates(member), &reader, region))
            };
            owning((0..group.size()).map(part))
        };
        self.read(source, region, parts)
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
