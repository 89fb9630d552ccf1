//! Output tiles whose partial sums are added up in a group: the operations on inputs, run backwards.
//!
//! A broadcast run backwards is a reduction, an all-gather a reduce-scatter, and a shift of inputs a shift of sums.
//! Sums are taken in the order of the members' ranks, on every back end, so that they have the same bits everywhere, unless
//! the tile leaves the order to the library ([`OutTile::in_any_order`]).

use super::pending::Pending;
use super::terms::{Fold, combine, combine_pieces, owned_by_this, pieces};
use super::{OutTile, cyclic_neighbour, one_box, room, root};
use crate::comm::{Combining, Order, received_in_sum};
use crate::exchange::{Exchange, owned};
use crate::shared_tiles::share_tiles;
use crate::subarray::{Place, Subarray, mail};
use crate::{DistArray, Element, Group, ReduceOp, Region, Result};
use bytemuck::cast_slice_mut;
use smallvec::SmallVec;
use std::rc::Rc;

/// When an operation combines its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before it returns.
    Now,
    /// When the tile arrives, unless the sums are available immediately.
    Later,
}

impl<T: Element> OutTile<T> {
    /// Combines the tiles of all members, which have the same region, into the shard of the member at
    /// `root_coordinates` along the group's axes, which owns all of it (MPI 3.1, section 5.9).
    ///
    /// ```text
    /// before   member 0: a0    member 1: a1    member 2: a2
    /// after    root: a op ((a0 op a1) op a2)
    /// ```
    ///
    /// If the region is empty, which it is on all members or on none, nothing is sent. Stages as much data as the tile holds.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the root does not own all of the region: a bug in polyshard.
    pub(crate) fn reduce(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let root = root(group, root_coordinates, &self.region);
        self.reduce_to(group, Some(root), target, op, When::Now).map(drop)
    }

    /// Combines the tiles of all members, which have the same region, into the shard of each of them, which all own
    /// all of it (MPI 3.1, section 5.9.6).
    ///
    /// ```text
    /// before   member 0: a0    member 1: a1    member 2: a2
    /// after    each member: a op ((a0 op a1) op a2)
    /// ```
    ///
    /// If the region is empty, which it is on all members or on none, nothing is sent. Stages as much data as the tile holds.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a member does not own all of the region: a bug in polyshard.
    pub(crate) fn all_reduce(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        self.reduce_to(group, None, target, op, When::Now).map(drop)
    }

    /// Combines the sums into the shard of the member `root`, or of each member if no root is given. Returns the posted transfer, if the
    /// tile has to arrive later.
    pub(super) fn reduce_to(
        &mut self,
        group: &Group,
        root: Option<usize>,
        target: &mut DistArray<T>,
        op: ReduceOp,
        when: When,
    ) -> Result<Option<Pending>> {
        if self.region.is_empty() {
            return Ok(None);
        }
        let is_wanted = root.is_none_or(|root| root == group.rank());
        let is_by_steps = self.reduction.is_some() && root.is_none() || group.is_in_stages();
        if when == When::Later || !is_by_steps && self.order != Order::Any {
            let own = if is_wanted { self.own_part(target, owned_by_this) } else { Rc::clone(&self.nothing) };
            if self.order != Order::RanksInPieces {
                let wholes = |target: &_, region: &_| wholes_of(group, root, target, region);
                return self.sum_parts(group, own, wholes, target, op, when);
            }
            if self.can_meet(group, target, op)? && self.reduce_in_place(group, root, &own, target, op)? {
                return Ok(None);
            }
            if when == When::Later {
                return self.send_pieces(group, own, root, op).map(Some);
            }
        }
        self.sums();
        let sums = &mut self.buffer[..self.region.len()];
        let combining = Combining { dtype: T::DTYPE, op, order: self.order };
        match (&self.reduction, root) {
            (Some(reduction), None) => T::reduce(reduction, sums, op)?,
            _ if group.is_in_stages() => self.sum_in_stages(group, root, op)?,
            (_, None) => group.comm().all_reduce(cast_slice_mut(sums), combining)?,
            (_, Some(root)) => group.comm().reduce(root, cast_slice_mut(sums), combining)?,
        }
        if is_wanted {
            self.combine_local(target, op);
        }
        Ok(None)
    }

    /// As [`reduce_to`](Self::reduce_to), where members read each other's tiles: each adds up a piece of all tiles, and the members that
    /// need the sums read the pieces. Does nothing, on all members, if one of them cannot see another's tile.
    fn reduce_in_place(
        &mut self,
        group: &Group,
        root: Option<usize>,
        own: &Subarray,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<bool> {
        let sums = self.sums();
        let (len, bytes) = (sums.len(), size_of_val(sums));
        let Some(mut shared) = share_tiles(group, &mut self.buffer, len)? else { return Ok(false) };
        let pieces = pieces(0..len, group.size());
        shared.sum(pieces[group.rank()].clone(), op)?;
        combine_pieces(own, &shared.tiles(), &pieces, target, self.written.as_ref(), op);
        shared.release()?;
        group.comm().count_in_place(received_in_sum(bytes, group.size(), group.rank(), root, T::DTYPE, true));
        Ok(true)
    }

    /// Combines the tiles of all members, which have the same region, into the shards of those that own a part of it (MPI 3.1, section
    /// 5.10).
    ///
    /// ```text
    /// before   member 0: a0 b0 c0    member 1: a1 b1 c1    member 2: a2 b2 c2
    /// after    owner of a: a op ((a0 op a1) op a2)    owner of b: b op ((b0 op b1) op b2)    ..
    /// ```
    ///
    /// Parts that are contiguous in the tile are sent from it; others are packed first. Parts may be of any size, also empty. If the region
    /// is empty, which it is on all members or on none, nothing is sent. Stages the data that it receives, which is as much as the tile,
    /// and the packed parts.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the members do not own all of the region, each element once: a bug in polyshard.
    pub(crate) fn reduce_scatter(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        self.scatter_to(group, target, op, When::Now).map(drop)
    }

    /// Combines the sums into the shards of the members that own them. Returns the posted transfer, if the tile has to arrive later.
    pub(super) fn scatter_to(
        &mut self,
        group: &Group,
        target: &mut DistArray<T>,
        op: ReduceOp,
        when: When,
    ) -> Result<Option<Pending>> {
        if self.region.is_empty() {
            return Ok(None);
        }
        if when == When::Now && (group.is_in_stages() || self.order == Order::Any) {
            return self.scatter_in_stages(group, target, op).map(|()| None);
        }
        let own = self.own_part(target, |target, region| parts_of(group, target, region).swap_remove(group.rank()));
        self.sum_parts(group, own, |target, region| parts_of(group, target, region), target, op, when)
    }

    /// Adds up the members' terms of a tile, each of which gets its part into its shard; by messages even if members see each other's
    /// tiles, if `by_messages`.
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
        let own = Rc::new(parts[group.rank()].clone());
        tile.sum_parts(group, own, |_, _| parts, target, ReduceOp::Sum, When::Now).map(drop)
    }

    /// Adds up all members' terms of this member's part, `own`, and combines the sums into the shard in one pass over it: members read each
    /// other's tiles, or receive their parts, given by `parts`, as messages.
    fn sum_parts(
        &mut self,
        group: &Group,
        own: Rc<Subarray>,
        parts: impl FnOnce(&DistArray<T>, &Region) -> Vec<Subarray>,
        target: &mut DistArray<T>,
        op: ReduceOp,
        when: When,
    ) -> Result<Option<Pending>> {
        assert!(self.order != Order::Any, "sums in any order are a library's; this is a bug in polyshard");
        if self.can_meet(group, target, op)? && self.sum_in_place(group, &own, target, op)? {
            return Ok(None);
        }
        let terms = Exchange::terms(group, own, parts(target, &self.region));
        match when {
            When::Now => self.deliver(group.comm(), &terms, Fold::Sum, target, op).map(|()| None),
            When::Later => self.send(group.comm(), Rc::new(terms), Fold::Sum).map(Some),
        }
    }

    /// As [`sum_parts`](Self::sum_parts), where members read each other's tiles. Does nothing, on all members, if one of them cannot see
    /// another's.
    fn sum_in_place(&mut self, group: &Group, own: &Subarray, target: &mut DistArray<T>, op: ReduceOp) -> Result<bool> {
        let (len, elements) = (self.sums().len(), own.len() * (group.size() - 1));
        let Some(shared) = share_tiles(group, &mut self.buffer, len)? else { return Ok(false) };
        let terms = shared.tiles().into_iter().map(|tile| (tile, Place::Region));
        combine(own, &terms.collect::<SmallVec<[_; 8]>>(), target, self.written.as_ref(), op);
        shared.release()?;
        group.comm().count_in_place(elements * size_of::<T>());
        Ok(true)
    }

    /// Receives the sums of the member `by` places after this one, cyclically through the group, whose region is `region`, and sends its
    /// own to the member `by` places before (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// by 1     member 0: a    member 1: b    member 2: c
    /// after    member 0: b    member 1: c    member 2: a        to which each then adds its own terms
    /// ```
    ///
    /// Sizes may differ between members, as tiles may be short or empty; empty tiles are not sent. Stages a second tile, which alternates
    /// with the first.
    ///
    /// # Errors
    /// If another rank failed, or its tile does not have the size of `region`.
    ///
    /// # Panics
    /// If `by` is a multiple of the group's size and `region` is not that of its tile: a bug in polyshard.
    pub(crate) fn shift(&mut self, group: &Group, by: i64, region: &Region) -> Result<()> {
        one_box(region);
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        if from == group.rank() {
            assert!(
                *region == self.region || region.is_empty() && self.region.is_empty(),
                "a shift by {by} in a group of {} changes a tile of {} to {region}; this is a bug in polyshard",
                group.size(),
                self.region
            );
            return Ok(());
        }
        self.sums();
        self.incoming.grow(self.buffer.len(), "the second buffer of a tile")?;
        let data = &self.buffer[..self.region.len()];
        mail::pass_on(group.comm(), Some((to, data)), Some((from, room(&mut self.incoming, region))))?;
        std::mem::swap(&mut self.buffer, &mut self.incoming);
        self.region = region.clone();
        Ok(())
    }
}

/// All of the region for each member that gets it: the root, or all.
fn wholes_of<T: Element>(group: &Group, root: Option<usize>, target: &DistArray<T>, region: &Region) -> Vec<Subarray> {
    let part = |member| match root.is_none_or(|root| root == member) {
        true => owned(target, &group.coordinates(member), region),
        false => Subarray::default(),
    };
    (0..group.size()).map(part).collect()
}

/// The part of the region that each member owns; together they are all of it.
pub(super) fn parts_of<T: Element>(group: &Group, target: &DistArray<T>, region: &Region) -> Vec<Subarray> {
    let part = |member| Subarray::of(target.sharding(), &group.coordinates(member), region);
    let parts: Vec<_> = (0..group.size()).map(part).collect();
    let total: usize = parts.iter().map(Subarray::len).sum();
    assert!(
        total == region.len(),
        "the members of a group own {total} of the {} elements of {region} of an array sharded {}; this is a bug in polyshard",
        region.len(),
        target.sharding()
    );
    parts
}
