//! Tiles that a whole group fetches at once: broadcast and all-gather.

use super::{Held, Overlap, Place, Tile, one_box, owned};
use crate::comm::Broadcast;
use crate::{DistArray, Element, Group, Region, Result, memory};
use bytemuck::{cast_slice, cast_slice_mut};

impl<T: Element> Tile<T> {
    /// Gives all members of the group `region`, which the member at `root_coordinates` along the group's axes
    /// owns (MPI 3.1, section 5.4).
    ///
    /// ```text
    /// before   root: r    others: -
    /// after    each member: r
    /// ```
    ///
    /// The root sends from its shard if the region lies together there, and then holds it without a copy; else
    /// it packs it once. Each other member receives `region.len()` elements; if the region is empty, which it
    /// is on all members or on none, nothing is sent.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the root does not own all of the region: a bug of polyshard.
    pub fn broadcast(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        source: &DistArray<T>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        if region.is_empty() {
            self.held = Held::Nothing;
            return Ok(());
        }
        let inside = |&coordinate: &i64| {
            usize::try_from(coordinate)
                .unwrap_or_else(|_| panic!("a broadcast from coordinate {coordinate}; this is a bug of polyshard"))
        };
        let root = group.rank_of(&root_coordinates.iter().map(inside).collect::<Vec<_>>());
        if group.rank() != root {
            group.comm().broadcast(Broadcast::Receive { root, into: cast_slice_mut(self.room(region)) })?;
            self.held = Held::Buffer(region.clone());
            return Ok(());
        }
        if group.size() == 1 {
            self.hold_or_copy(source, region);
            return Ok(());
        }
        let own = owned(source, source.coordinates(), region);
        if let Some(range) = own.contiguous(Place::Block) {
            self.hold(region);
            return group.comm().broadcast(Broadcast::Send(cast_slice(&source.block()[range])));
        }
        self.copy(source, region);
        group.comm().broadcast(Broadcast::Send(cast_slice(self.room(region))))
    }

    /// Gives all members of the group `region`, of which each owns a part (MPI 3.1, section 5.7).
    ///
    /// ```text
    /// before   member 0: a    member 1: b    member 2: c
    /// after    each member: a b c
    /// ```
    ///
    /// Each member sends its part, from its shard if it lies together there, else packed. Parts that follow one
    /// another in the region, in the members' order, are received in place; else they are staged and put where
    /// they belong. An element that several members own is sent by one of them. If the region is empty, which
    /// it is on all members or on none, nothing is sent.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the members do not own all of the region: a bug of polyshard.
    pub fn all_gather(&mut self, group: &Group, source: &DistArray<T>, region: &Region) -> Result<()> {
        if region.is_empty() {
            self.held = Held::Nothing;
            return Ok(());
        }
        if group.size() == 1 {
            self.hold_or_copy(source, region);
            return Ok(());
        }
        let sharding = source.sharding();
        let reader = group.coordinates(0);
        let part = |member| Overlap::read(sharding, &group.coordinates(member), &reader, region);
        let parts: Vec<_> = (0..group.size()).map(part).collect();
        let total: usize = parts.iter().map(Overlap::len).sum();
        assert!(
            total == region.distinct(),
            "the members of a group own {total} of the {} elements of {region} of an array sharded {sharding}; this \
             is a bug of polyshard",
            region.distinct()
        );
        let counts: Vec<_> = parts.iter().map(|part| part.len() * size_of::<T>()).collect();
        let in_order = parts.iter().scan(0, |next, part| {
            let here = part.contiguous(Place::Region).is_some_and(|range| range.is_empty() || range.start == *next);
            *next += part.len();
            Some(here)
        });
        let in_place = in_order.collect::<Vec<_>>().iter().all(|&here| here);

        let send = parts[group.rank()].packed(Place::Block, source.block(), &mut self.outgoing)?;
        let buffer = super::room(&mut self.buffer, region);
        if in_place {
            group.comm().all_gather(cast_slice(send), cast_slice_mut(buffer), &counts)?;
        } else {
            memory::grow(&mut self.incoming, total, "what a tile receives")?;
            let incoming = &mut self.incoming[..total];
            group.comm().all_gather(cast_slice(send), cast_slice_mut(incoming), &counts)?;
            let mut rest = &incoming[..];
            for part in &parts {
                let (packed, others) = rest.split_at(part.len());
                part.copy(Place::Packed, packed, Place::Region, buffer);
                rest = others;
            }
        }
        self.held = Held::Buffer(region.clone());
        Ok(())
    }
}
