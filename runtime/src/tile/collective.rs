//! Tiles that a whole group fetches at once: broadcast and all-gather.

use super::fetch::{all_parts, is_seen_in};
use super::{Held, Tile, one_box, root};
use crate::comm::Broadcast;
use crate::exchange::owned;
use crate::subarray::{Place, Subarray, mail};
use crate::{Element, Group, Region, Result, Shards};
use bytemuck::{cast_slice, cast_slice_mut};

impl<T: Element> Tile<T> {
    /// Broadcasts `region` to all members of the group from the member at `root_coordinates` along the group's axes, which owns it (MPI
    /// 3.1, section 5.4).
    ///
    /// ```text
    /// before   root: r    others: -
    /// after    each member: r
    /// ```
    ///
    /// The root sends from its shard if the region is contiguous there and in the array, and then holds it without a copy; else it packs it
    /// once. Each other member receives `region.len()` elements; if the region is empty, which it is on all members or on none, nothing is
    /// sent.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the root does not own all of the region: a bug in polyshard.
    pub(crate) fn broadcast<'a>(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        self.broadcast_from(group, root(group, root_coordinates, region), source.into(), region)
    }

    /// Broadcasts `region` to all members of the group from the tile of the member at `root_coordinates`, which holds it already, whichever
    /// rank owns it (MPI 3.1, section 5.4).
    ///
    /// Otherwise as [`broadcast`](Self::broadcast). Tiles of other members lose the region that they held.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the root's tile does not hold the region: a bug in polyshard.
    pub(crate) fn broadcast_held<'a>(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let (source, root) = (source.into(), root(group, root_coordinates, region));
        if let Some(near) = self.anywhere(source, region, group.rank() != root) {
            return self.hold_fetched(source, region, &near, &[]);
        }
        if region.is_empty() {
            self.held = Held::Nothing;
            return Ok(());
        }
        group.parts_from(root).into_iter().try_for_each(|(part, from)| self.hand_on(part, from, source, region))
    }

    /// As [`broadcast`](Self::broadcast), from the member `root`.
    fn broadcast_from(&mut self, group: &Group, root: usize, source: Shards<'_, T>, region: &Region) -> Result<()> {
        if let Some(near) = self.near(source, group, Some(root), region) {
            return self.hold_fetched(source, region, &near, &[]);
        }
        if group.rank() == root {
            let own = owned(source.array(), source.coordinates(), region);
            if own.contiguous(Place::Block).is_some() {
                let near = self.own(source, region);
                self.hold_fetched(source, region, &near, &[])?;
            } else {
                self.copy(source, region);
            }
        }
        let owner = group.world_rank(root);
        group.parts_from(root).into_iter().try_for_each(|(part, from)| {
            if part.size() == 1 || part.world_rank(from) != owner || !is_seen_in(source, part) {
                return self.hand_on(part, from, source, region);
            }
            // In a stage, some members may see the owner's shard where others do not.
            if part.rank() == from {
                return Ok(());
            }
            let near = self.near_one(source, owner, region);
            let near = near.expect("the owner's shard is seen; this is a bug in polyshard");
            self.hold_fetched(source, region, &near, &[])
        })
    }

    /// Broadcasts a region, which is not empty, from the tile of the member `root`, which holds it.
    fn hand_on(&mut self, group: &Group, root: usize, source: Shards<'_, T>, region: &Region) -> Result<()> {
        if group.rank() != root {
            group.comm().broadcast(Broadcast::Receive { root, into: cast_slice_mut(self.room(region)) })?;
            self.held = Held::Buffer(region.clone());
            return Ok(());
        }
        self.holds(region);
        if group.size() == 1 {
            return Ok(());
        }
        let data = self.held.data(&mut self.buffer, source)?;
        group.comm().broadcast(Broadcast::Send(cast_slice(data)))
    }

    /// Gathers `region` on all members of the group, each of which owns a part of it, which may be empty (MPI 3.1, sections 5.4 and 5.7).
    ///
    /// ```text
    /// before   member 0: a    member 1: -    member 2: b
    /// after    each member: a b
    /// ```
    ///
    /// Each owner sends its part, from its shard if it is contiguous there, else packed: in one all-gather, or in one broadcast per owner
    /// if the tile is gathered [`in_pieces`](Self::in_pieces). Parts that are contiguous in the region are received in place, unless they
    /// are gathered at once and do not follow each other in the members' order; others are staged and unpacked. An element that several
    /// members own is sent by one of them. If the region is empty, which it is on all members or on none, nothing is sent.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the members do not own all of the region: a bug in polyshard.
    pub(crate) fn all_gather<'a>(
        &mut self,
        group: &Group,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        let source = source.into();
        if let Some(near) = self.near(source, group, None, region) {
            return self.hold_fetched(source, region, &near, &[]);
        }
        let parts = all_parts(source, group, region);
        if self.in_pieces && !group.is_in_stages() {
            let owner = parts.iter().position(|part| part.len() == region.distinct());
            if let Some(root) = owner.filter(|_| !region.wraps()) {
                // The owner of the whole region holds it in place.
                return self.broadcast_from(group, root, source, region);
            }
            self.broadcast_parts(group, source, region, &parts)?;
        } else {
            let target = cast_slice_mut(super::room(&mut self.buffer, region));
            let staging = [&mut self.outgoing, &mut self.incoming];
            mail::all_gather(group, &parts, size_of::<T>(), cast_slice(source.block()), target, staging)?;
        }
        self.held = Held::Buffer(region.clone());
        Ok(())
    }

    /// One broadcast per owner.
    fn broadcast_parts(
        &mut self,
        group: &Group,
        source: Shards<'_, T>,
        region: &Region,
        parts: &[Subarray],
    ) -> Result<()> {
        let buffer = super::room(&mut self.buffer, region);
        parts[group.rank()].copy(Place::Block, source.block(), Place::Region, buffer);
        for (root, part) in parts.iter().enumerate().filter(|(_, part)| part.len() > 0) {
            if root == group.rank() {
                let send = part.packed(Place::Block, source.block(), &mut self.outgoing)?;
                group.comm().broadcast(Broadcast::Send(cast_slice(send)))?;
                continue;
            }
            mail::receive(part, buffer, &mut self.incoming, |into| {
                group.comm().broadcast(Broadcast::Receive { root, into })
            })?;
        }
        Ok(())
    }
}
