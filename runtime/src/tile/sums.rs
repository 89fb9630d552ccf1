//! Output tiles whose partial sums meet in a group: the operations of inputs, run backwards.
//!
//! A broadcast run backwards is a reduction, an all-gather a reduce-scatter, and a shift of inputs a shift of sums.
//! Sums are taken in the order of the members' ranks, on every back end, so that they have the same bits everywhere, unless
//! the tile leaves the order to the library ([`OutTile::in_any_order`]).

use super::out::{combine, combine_pieces, combine_sum, owned_by_this};
use super::{OutTile, cyclic_neighbour, one_box, owned, room, root};
use crate::comm::{Combining, Order, received_in_sum};
use crate::layout::SumKind;
use crate::memory::split_mut;
use crate::shared_tiles::share_tiles;
use crate::subarray::{Place, Subarray, in_order, mail};
use crate::{DistArray, Element, Group, ReduceOp, Region, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;

/// What each member has of a part, and how.
pub(super) type Terms<'a, T> = SmallVec<[(&'a [T], Place); 8]>;

impl<T: Element> OutTile<T> {
    /// Combines the tiles of all members, which have the same region, into the shard of the member at
    /// `root_coordinates` along the group's axes, which owns all of it (MPI 3.1, section 5.9).
    ///
    /// ```text
    /// before   member 0: a0    member 1: a1    member 2: a2
    /// after    root: a op ((a0 op a1) op a2)
    /// ```
    ///
    /// If the region is empty, which it is on all members or on none, nothing is sent. Stages as much as the tile.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the root does not own all of the region: a bug of polyshard.
    pub fn reduce(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let root = root(group, root_coordinates, &self.region);
        self.reduce_to(group, Some(root), target, op)
    }

    /// Combines the tiles of all members, which have the same region, into the shard of each of them, which all own
    /// all of it (MPI 3.1, section 5.9.6).
    ///
    /// ```text
    /// before   member 0: a0    member 1: a1    member 2: a2
    /// after    each member: a op ((a0 op a1) op a2)
    /// ```
    ///
    /// If the region is empty, which it is on all members or on none, nothing is sent. Stages as much as the tile.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a member does not own all of the region: a bug of polyshard.
    pub fn all_reduce(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        self.reduce_to(group, None, target, op)
    }

    /// Combines the sums into the shard of the member `root`, or of each member if no root is given.
    fn reduce_to(&mut self, group: &Group, root: Option<usize>, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        if self.region.is_empty() {
            return Ok(());
        }
        if let (Some(_), None) = (&self.reduction, root) {
            self.sums();
            let Self { reduction, buffer, region, .. } = self;
            let sums = &mut buffer[..region.len()];
            reduction.iter().try_for_each(|reduction| T::reduce(reduction, sums, op))?;
            self.combine_local(target, op);
            return Ok(());
        }
        let wants = |member: usize| root.is_none_or(|root| root == member);
        if let Some(stages) = group.stages() {
            self.sum_in_stages(group, stages, root, op)?;
            if wants(group.rank()) {
                self.combine_local(target, op);
            }
            return Ok(());
        }
        if self.order == Order::Ranks {
            let own = if wants(group.rank()) { self.own_part(target, owned_by_this) } else { Rc::default() };
            return self.reduce_pieces(
                group,
                &own,
                |target, region| wholes_of(group, root, target, region),
                target,
                op,
            );
        }
        if self.order == Order::RanksInPieces && !self.by_messages && self.reduce_in_place(group, root, target, op)? {
            return Ok(());
        }
        let comm = group.comm();
        let combining = Combining { dtype: T::DTYPE, op, order: self.order };
        let data = cast_slice_mut(self.sums());
        match root {
            Some(root) => comm.reduce(root, data, combining)?,
            None => comm.all_reduce(data, combining)?,
        }
        if wants(group.rank()) {
            self.combine_local(target, op);
        }
        Ok(())
    }

    /// As [`reduce_to`](Self::reduce_to), where members read each other's tiles: each adds up a piece of all of them, and those
    /// who want the sum read the pieces. Does nothing, on all members, if one of them cannot see another's tile.
    pub(super) fn reduce_in_place(
        &mut self,
        group: &Group,
        root: Option<usize>,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<bool> {
        let sums = self.sums();
        let (len, bytes) = (sums.len(), size_of_val(sums));
        let own = root.is_none_or(|root| root == group.rank()).then(|| self.own_part(target, owned_by_this));
        let Some(mut shared) = share_tiles(group, &mut self.buffer, len)? else { return Ok(false) };
        shared.sum(piece(len, group.size(), group.rank()), op)?;
        if let Some(own) = own {
            let tiles = shared.tiles().into_iter().enumerate();
            let tiles: SmallVec<[_; 8]> = tiles.map(|(nth, tile)| (tile, piece(len, group.size(), nth))).collect();
            combine_pieces(&own, &tiles, target, self.written.as_ref(), op);
        }
        shared.release()?;
        group.comm().count_in_place(received_in_sum(bytes, group.size(), group.rank(), root, T::DTYPE, true));
        Ok(true)
    }

    /// Combines the tiles of all members, which have the same region, into the shards of those who own a part of it
    /// (MPI 3.1, section 5.10).
    ///
    /// ```text
    /// before   member 0: a0 b0 c0    member 1: a1 b1 c1    member 2: a2 b2 c2
    /// after    owner of a: a op ((a0 op a1) op a2)    owner of b: b op ((b0 op b1) op b2)    ..
    /// ```
    ///
    /// Parts that lie together in the tile are sent from it; else they are packed first. Parts may be of any size, also
    /// empty. If the region is empty, which it is on all members or on none, nothing is sent. Stages what it receives,
    /// which is as much as the tile, and the parts that are packed.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the members do not own all of the region, each element once: a bug of polyshard.
    pub fn reduce_scatter(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        if self.region.is_empty() {
            return Ok(());
        }
        if let Some(stages) = group.stages() {
            let parts = parts_of(group, target, &self.region);
            return self.scatter_in_stages(group, stages, &parts, target, op);
        }
        if self.order != Order::Any {
            let own = self.own_part(target, |target, region| parts_of(group, target, region).swap_remove(group.rank()));
            return self.reduce_pieces(group, &own, |target, region| parts_of(group, target, region), target, op);
        }
        let (parts, total) = (parts_of(group, target, &self.region), self.region.len());
        self.sums();
        let counts: Vec<_> = parts.iter().map(|part| part.len() * size_of::<T>()).collect();
        let tile = &self.buffer[..total];
        let packed: &[T] = if in_order(&parts, Place::Region) {
            tile
        } else {
            self.outgoing.grow(total, "what is packed to be sent")?;
            for (part, room) in parts.iter().zip(split_mut(&mut self.outgoing, parts.iter().map(Subarray::len))) {
                part.copy(Place::Region, tile, Place::Packed, room);
            }
            &self.outgoing[..total]
        };
        let own = &parts[group.rank()];
        self.incoming.grow(own.len(), "what is combined into an array")?;
        let into = &mut self.incoming[..own.len()];
        group.comm().reduce_scatter(
            cast_slice(packed),
            cast_slice_mut(into),
            &counts,
            Combining::any_order(T::DTYPE, op),
        )?;
        combine(own, Place::Packed, into, target, self.written.as_ref(), op);
        Ok(())
    }

    /// Adds up the members' terms of a tile, of which each gets its part into its shard; by messages even where members see each
    /// other's tiles, if `by_messages`.
    ///
    /// # Errors
    /// If there is too little memory, or another rank failed.
    pub(crate) fn scatter(
        group: &Group,
        by_messages: bool,
        region: &Region,
        terms: &[T],
        parts: Vec<Subarray>,
        target: &mut DistArray<T>,
    ) -> Result<()> {
        let mut tile = Self::new("partial sums", terms.len())?;
        tile.buffer[..terms.len()].copy_from_slice(terms);
        tile.region = region.clone();
        tile.by_messages = by_messages;
        let own = parts[group.rank()].clone();
        tile.reduce_pieces(group, &own, |_, _| parts, target, ReduceOp::Sum)
    }

    /// Reduces this member's piece: combines the sum of what all members have of this member's part, `own`, into the shard, in one pass over all of it; members
    /// read each other's tiles, or get their parts, which `parts` says, by messages.
    fn reduce_pieces(
        &mut self,
        group: &Group,
        own: &Subarray,
        parts: impl FnOnce(&DistArray<T>, &Region) -> Vec<Subarray>,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        if !self.by_messages && self.sum_in_place(group, own, target, op)? {
            return Ok(());
        }
        let me = group.rank();
        self.sums();
        let [sends, receives] = exchanged(group, own, parts(target, &self.region));
        self.incoming.grow(own.len() * receives.len(), "what is combined into an array")?;
        let mut received = mail::parts(&receives, &mut self.incoming);
        mail::exchange(group.comm(), &sends, Place::Region, &self.buffer, &mut self.outgoing, &mut received)?;
        let mut terms: Terms<'_, T> = received.iter().map(|(_, part)| (&**part, Place::Packed)).collect();
        if own.len() > 0 {
            terms.insert(me, (&self.buffer, Place::Region));
        }
        combine_sum(own, &terms, target, self.written.as_ref(), op);
        Ok(())
    }

    /// As [`reduce_pieces`](Self::reduce_pieces), where members read each other's tiles. Does nothing, on all members, if one of them cannot see
    /// another's.
    pub(super) fn sum_in_place(
        &mut self,
        group: &Group,
        own: &Subarray,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<bool> {
        let (len, elements) = (self.sums().len(), own.len() * (group.size() - 1));
        let Some(shared) = share_tiles(group, &mut self.buffer, len)? else { return Ok(false) };
        let terms = shared.tiles().into_iter().map(|tile| (tile, Place::Region));
        combine_sum(own, &terms.collect::<Terms<'_, T>>(), target, self.written.as_ref(), op);
        shared.release()?;
        group.comm().count_in_place(elements * size_of::<T>());
        Ok(true)
    }

    /// Takes over the sums of the member `by` places after this one, cyclically through the group, which are those of `region`, and
    /// gives its own to the member `by` places before (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// by 1     member 0: a    member 1: b    member 2: c
    /// after    member 0: b    member 1: c    member 2: a        to which each then adds its own terms
    /// ```
    ///
    /// Sizes may differ between members, as tiles may be short or empty; nothing is sent of those. Stages a second
    /// tile, in turns with the first.
    ///
    /// # Errors
    /// If another rank failed, or its tile has another size than `region`.
    ///
    /// # Panics
    /// If `by` leads back to this rank and `region` is not that of its tile: a bug of polyshard.
    pub fn shift(&mut self, group: &Group, by: i64, region: &Region) -> Result<()> {
        one_box(region);
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        if from == group.rank() {
            assert!(
                *region == self.region || region.is_empty() && self.region.is_empty(),
                "a shift by {by} in a group of {} changes a tile of {} to {region}; this is a bug of polyshard",
                group.size(),
                self.region
            );
            return Ok(());
        }
        self.sums();
        self.incoming.grow(self.buffer.len(), "the second buffer of a tile")?;
        let data = &self.buffer[..self.region.len()];
        mail::pass_on(group.comm(), (to, data), (from, room(&mut self.incoming, region)))?;
        std::mem::swap(&mut self.buffer, &mut self.incoming);
        self.region = region.clone();
        Ok(())
    }
}

/// All of the region for each member that wants it: the root, or all.
pub(super) fn wholes_of<T: Element>(
    group: &Group,
    root: Option<usize>,
    target: &DistArray<T>,
    region: &Region,
) -> Vec<Subarray> {
    let part = |member| match root.is_none_or(|root| root == member) {
        true => owned(target, &group.coordinates(member), region),
        false => Subarray::default(),
    };
    (0..group.size()).map(part).collect()
}

/// What this member sends of each other one's part, and receives of its own, which is `own`.
pub(super) fn exchanged(group: &Group, own: &Subarray, parts: Vec<Subarray>) -> [Vec<(usize, Subarray)>; 2] {
    let others = |member: &usize| *member != group.rank();
    let sends = parts.into_iter().enumerate().filter(|(member, part)| others(member) && part.len() > 0);
    let receives = (0..group.size()).filter(|member| others(member) && own.len() > 0);
    [sends.collect(), receives.map(|from| (from, own.clone())).collect()]
}

/// What each member owns of the region, which together is all of it.
pub(super) fn parts_of<T: Element>(group: &Group, target: &DistArray<T>, region: &Region) -> Vec<Subarray> {
    let part = |member| Subarray::of(target.sharding(), &group.coordinates(member), region);
    let parts: Vec<_> = (0..group.size()).map(part).collect();
    let total: usize = parts.iter().map(Subarray::len).sum();
    assert!(
        total == region.len(),
        "the members of a group own {total} of the {} elements of {region} of an array sharded {}; this is a bug of polyshard",
        region.len(),
        target.sharding()
    );
    parts
}

/// The positions in tiles of `len` elements that a member adds up.
pub(super) fn piece(len: usize, members: usize, member: usize) -> Range<usize> {
    let size = |member: usize| SumKind::piece(len as u64, members as u64, member as u64) as usize;
    let start = (0..member).map(size).sum();
    start..start + size(member)
}
