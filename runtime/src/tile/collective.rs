//! Tiles that a whole group fetches at once: broadcast and all-gather.

use super::in_flight::{Posted, flight};
use super::link::{End, Fetching, Link, Source, When, post, room_for};
use super::route::{Fetch, all_parts, is_seen_in};
use super::{Held, one_box, root};
use crate::comm::{Broadcast, Rounds};
use crate::exchange::{Exchange, owned};
use crate::subarray::{Place, Subarray, mail};
use crate::{Element, Group, Region, Result, Shards};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::Algorithm;
use std::rc::Rc;
use std::sync::Arc;

impl<T: Element> Link<T> {
    /// Broadcasts `region` to all members of the group from the member at `root_coordinates` along the group's axes, which owns it, or
    /// whose tile holds it (MPI 3.1, section 5.4).
    ///
    /// ```text
    /// before   root: r    others: -
    /// after    each member: r
    /// ```
    ///
    /// The root sends from its shard if the region is contiguous there and in the array, and then holds it without a copy; else it packs it
    /// once. Each other member receives `region.len()` elements; if the region is empty, which it is on all members or on none, nothing is
    /// sent. A tile's region is always broadcast at once.
    pub(crate) fn broadcast(&mut self, group: &Group, root_coordinates: &[i64], of: Fetching<'_, T>) -> Result<()> {
        let Fetching { source, here: region, from, when } = of;
        one_box(region);
        let root = root(group, root_coordinates, region);
        if from == Source::Tiles {
            if let Some(near) = self.anywhere(source, region, group.rank() != root) {
                return self.hold_fetched(source, region, &near, &[]);
            }
            if region.is_empty() {
                self.tile.held = Held::Nothing;
                return Ok(());
            }
            let mut parts = group.parts_from(root).into_iter();
            return parts.try_for_each(|(part, from)| self.hand_on(part, from, source, region));
        }
        match (self.near(source, group, Some(root), region), when) {
            (Some(near), _) => self.fetch(of, near),
            (None, When::Now) => self.broadcast_from(group, root, source, region),
            (None, When::Later) => self.begin_broadcast(group, root, source, region),
        }
    }

    fn begin_broadcast(&mut self, group: &Group, root: usize, source: Shards<'_, T>, region: &Region) -> Result<()> {
        let mut message = room_for::<T>(region.len())?;
        let (me, size) = (group.rank(), group.size());
        if me == root {
            let own = owned(source.array(), source.coordinates(), region);
            own.copy(Place::Block, source.block(), Place::Region, cast_slice_mut(&mut message));
        }
        let cut = |segments: usize| Rounds::segments(message.len(), segments, size_of::<T>());
        let (posted, own) = match self.how.by {
            Algorithm::Chain(segments) => {
                let members = (0..size).map(|nth| (root + nth) % size).collect();
                let rounds = Rounds::chain(members, me, cut(segments));
                (self.flights.passing(rounds.start(message, None))?, None)
            }
            Algorithm::Circulant(segments) => {
                let rounds = Rounds::circulant(size, me, root, cut(segments));
                (self.flights.passing(rounds.start(message, None))?, None)
            }
            _ if me == root => {
                let message = Arc::new(message);
                let others = (0..size).filter(|&member| member != root);
                let sends = others.map(|to| (to, Arc::clone(&message))).collect();
                (Posted::Messages(flight(group.comm(), sends, Vec::new())?), Some(message))
            }
            _ => (Posted::Messages(flight(group.comm(), Vec::new(), vec![(root, message)])?), None),
        };
        self.begin(region, posted, End::Message(own));
        Ok(())
    }

    /// As [`broadcast`](Self::broadcast), from the shard of the member `root`, which not all members see, at once.
    fn broadcast_from(&mut self, group: &Group, root: usize, source: Shards<'_, T>, region: &Region) -> Result<()> {
        if group.rank() == root {
            let near = self.own_route(source, region);
            self.hold_fetched(source, region, &near, &[])?;
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
        let tile = &mut self.tile;
        if group.rank() != root {
            group.comm().broadcast(Broadcast::Receive { root, into: cast_slice_mut(tile.room(region)) })?;
            tile.held = Held::Buffer(region.clone());
            return Ok(());
        }
        tile.holds(region);
        if group.size() == 1 {
            return Ok(());
        }
        let data = tile.held.data(&mut tile.buffer, source)?;
        Ok(group.comm().broadcast(Broadcast::Send(cast_slice(data)))?)
    }

    /// Gathers `region` on all members of the group, each of which owns a part of it, which may be empty (MPI 3.1, sections 5.4 and 5.7).
    ///
    /// ```text
    /// before   member 0: a    member 1: -    member 2: b
    /// after    each member: a b
    /// ```
    ///
    /// Each owner sends its part, from its shard if it is contiguous there, else packed: in one all-gather, or in one broadcast per owner
    /// if each broadcasts its part, or, later, in a message to each member. Parts that are contiguous in the region are received in
    /// place, unless they are gathered at once and do not follow each other in the members' order; others are staged and unpacked. An
    /// element that several members own is sent by one of them. If the region is empty, which it is on all members or on none, nothing is
    /// sent.
    pub(crate) fn all_gather(&mut self, group: &Group, of: Fetching<'_, T>) -> Result<()> {
        let Fetching { source, here: region, when, .. } = of;
        if let Some(near) = self.near(source, group, None, region) {
            return self.fetch(of, near);
        }
        let parts = all_parts(source, group, region);
        if when == When::Later {
            let exchange = Exchange::gather(group, parts);
            let posted = Posted::Messages(post(group.comm(), &exchange, Place::Block, source.block())?);
            let fetch = Fetch::new(source, region, exchange, false);
            self.begin(region, posted, End::Fetched(Rc::new(fetch)));
            return Ok(());
        }
        if self.how.by == Algorithm::EachPart {
            let owner = parts.iter().position(|part| part.len() == region.distinct());
            if let Some(root) = owner.filter(|_| !region.wraps()) {
                // The owner of the whole region holds it in place.
                return self.broadcast_from(group, root, source, region);
            }
            self.broadcast_parts(group, source, region, &parts)?;
        } else {
            let target = cast_slice_mut(self.tile.room(region));
            let staging = [&mut self.outgoing, &mut self.incoming];
            mail::all_gather(group, &parts, size_of::<T>(), cast_slice(source.block()), target, staging)?;
        }
        self.tile.held = Held::Buffer(region.clone());
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
        let buffer = self.tile.room(region);
        parts[group.rank()].copy(Place::Block, source.block(), Place::Region, buffer);
        for (root, part) in parts.iter().enumerate().filter(|(_, part)| part.len() > 0) {
            if root == group.rank() {
                let send = part.packed(Place::Block, source.block(), &mut self.outgoing)?;
                group.comm().broadcast(Broadcast::Send(cast_slice(send)))?;
                continue;
            }
            mail::receive(part, buffer, &mut self.incoming, |into| {
                Ok(group.comm().broadcast(Broadcast::Receive { root, into })?)
            })?;
        }
        Ok(())
    }
}
