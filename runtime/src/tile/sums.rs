//! Tiles that are combined into their owners' shards: the operations on inputs, run backwards.
//!
//! A broadcast run backwards is a reduction, an all-gather a reduce-scatter, and a shift of inputs a shift of sums. Sums are taken in the
//! order of the members' ranks, on every back end, so that they have the same bits everywhere, unless the link leaves the order to the
//! library.
//!
//! Tests: `tests/it/properties.rs`.

use super::in_flight::{Posted, Sums, flight};
use super::link::{End, How, Link, When, post, room_for};
use super::route::Fetch;
use super::terms::{Fold, Target, pieces};
use super::{Held, Tile, cyclic_neighbour, one_box, room, root};
use crate::comm::{Combining, Communicator, Piece, SumAlgorithm, received_in_sum};
use crate::exchange::{Exchange, owned, parts_of, total};
use crate::instances::Instances;
use crate::layout::Neighbours;
use crate::memory::{Buffer, split_mut};
use crate::shared_tiles::share_tiles;
use crate::subarray::mail::{self, Ends, Turns};
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Grid, Group, ReduceOp, Region, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

impl<T: Element> Link<T> {
    /// Combines the tile into this rank's own shard, where it may be scattered. Moves no data between ranks.
    pub(crate) fn combine_own(&mut self, target: &mut Target<'_, T>) {
        self.tile.sums();
        let own = self.owned(target.array);
        target.combine(&own, &[(&self.tile.buffer, Place::Region)]);
    }

    /// The tile's region in this rank's shard, which has all of it.
    fn owned(&mut self, target: &DistArray<T>) -> Rc<Subarray> {
        self.own_part(|region| owned(target, target.coordinates(), region))
    }

    /// The part of the tile's region that this rank owns in the output, as `find` returns it; `find` is called once, however often the
    /// region is combined.
    fn own_part(&mut self, find: impl FnOnce(&Region) -> Subarray) -> Rc<Subarray> {
        let region = self.tile.region();
        let own = || Exchange { keep: vec![Rc::new(find(region))], ..Exchange::default() };
        let found = self.found.get(region, false, || Fetch::of_terms(own()));
        Rc::clone(&found.exchange.keep[0])
    }

    /// Combines the tiles of all members, which have the same region, into the shard of the member at these coordinates along the group's
    /// axes, or of each member if none are given; they own all of it (MPI 3.1, sections 5.9 and 5.9.6).
    ///
    /// ```text
    /// before   member 0: a0    member 1: a1    member 2: a2
    /// after    root, or each member: a op ((a0 op a1) op a2)
    /// ```
    ///
    /// If the region is empty, which it is on all members or on none, nothing is sent. Stages as much data as the tile holds.
    pub(crate) fn reduce(
        &mut self,
        group: &Group,
        root_coordinates: Option<&[i64]>,
        target: &mut Target<'_, T>,
        when: When,
    ) -> Result<()> {
        if self.tile.region().is_empty() {
            return self.done(when);
        }
        let root = root_coordinates.map(|at| root(group, at, self.tile.region()));
        let is_wanted = root.is_none_or(|root| root == group.rank());
        let is_by_steps = self.how.reduction.is_some() && root.is_none() || group.is_in_stages();
        if when == When::Later || !is_by_steps && self.how.sums != SumAlgorithm::Library {
            let own = if is_wanted { self.owned(target.array) } else { Rc::clone(&self.no_part) };
            if self.how.sums != SumAlgorithm::ReduceScatterGather {
                let wholes = |target: &_, region: &_| wholes_of(group, root, target, region);
                return self.sum_parts(group, own, wholes, target, when);
            }
            if self.can_meet(group, target)? && self.reduce_in_place(group, root, &own, target)? {
                return self.done(when);
            }
            if when == When::Later {
                return self.send_pieces(group, own, root, target.op);
            }
        }
        self.tile.sums();
        let len = self.tile.region().len();
        let combining = self.combining(target.op);
        let sums = &mut self.tile.buffer[..len];
        match (&self.how.reduction, root) {
            (Some(reduction), None) => T::reduce(reduction, sums, target.op)?,
            _ if group.is_in_stages() => self.sum_in_stages(group, root, target.op)?,
            (_, None) => group.comm().all_reduce(cast_slice_mut(sums), combining)?,
            (_, Some(root)) => group.comm().reduce(root, cast_slice_mut(sums), combining)?,
        }
        if is_wanted {
            self.combine_own(target);
        }
        Ok(())
    }

    /// How a group combines the terms of the tile.
    pub(super) fn combining(&self, op: ReduceOp) -> Combining {
        Combining { dtype: T::DTYPE, op, by: self.how.sums }
    }

    /// Ends an operation that has nothing left to do.
    fn done(&mut self, when: When) -> Result<()> {
        if when == When::Later {
            self.depart(None);
        }
        Ok(())
    }

    /// As [`reduce`](Self::reduce), where members read each other's tiles: each adds up a piece of all tiles, and the members that need the
    /// sums read the pieces. Does nothing, on all members, if one of them cannot see another's tile.
    fn reduce_in_place(
        &mut self,
        group: &Group,
        root: Option<usize>,
        own: &Subarray,
        target: &mut Target<'_, T>,
    ) -> Result<bool> {
        let sums = self.tile.sums();
        let (len, bytes) = (sums.len(), size_of_val(sums));
        let Some(mut shared) = share_tiles(group, &mut self.tile.buffer, len)? else { return Ok(false) };
        let pieces = pieces(0..len, group.size());
        shared.sum(pieces[group.rank()].clone(), target.op)?;
        target.combine_pieces(own, &shared.tiles(), &pieces);
        shared.release()?;
        group.comm().count_in_place(received_in_sum(bytes, group.size(), group.rank(), root, T::DTYPE, self.how.sums));
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
    pub(crate) fn reduce_scatter(&mut self, group: &Group, target: &mut Target<'_, T>, when: When) -> Result<()> {
        if self.tile.region().is_empty() {
            return self.done(when);
        }
        if when == When::Now && (group.is_in_stages() || self.how.sums == SumAlgorithm::Library) {
            return self.scatter_in_stages(group, target);
        }
        let own = self.own_part(|region| parts_of_target(group, target.array, region).swap_remove(group.rank()));
        self.sum_parts(group, own, |target, region| parts_of_target(group, target, region), target, when)
    }

    /// Adds up all members' terms of this member's part, `own`, and combines the sums into the shard in one pass over it: members read each
    /// other's tiles, or receive their parts, given by `parts`, as messages.
    fn sum_parts(
        &mut self,
        group: &Group,
        own: Rc<Subarray>,
        parts: impl FnOnce(&DistArray<T>, &Region) -> Vec<Subarray>,
        target: &mut Target<'_, T>,
        when: When,
    ) -> Result<()> {
        assert!(
            self.how.sums != SumAlgorithm::Library,
            "sums in any order are a library's; this is a bug in polyshard"
        );
        if self.can_meet(group, target)? && self.sum_in_place(group, &own, target)? {
            return self.done(when);
        }
        let exchange = Exchange::terms(group, own, parts(target.array, self.tile.region()));
        let terms = Fetch::of_terms(exchange);
        self.deliver(group.comm(), Rc::new(terms), Fold::Sum, target, when)
    }

    /// As [`sum_parts`](Self::sum_parts), where members read each other's tiles. Does nothing, on all members, if one of them cannot see
    /// another's.
    fn sum_in_place(&mut self, group: &Group, own: &Subarray, target: &mut Target<'_, T>) -> Result<bool> {
        let (len, elements) = (self.tile.sums().len(), own.len() * (group.size() - 1));
        let Some(shared) = share_tiles(group, &mut self.tile.buffer, len)? else { return Ok(false) };
        let terms = shared.tiles().into_iter().map(|tile| (tile, Place::Region));
        target.combine(own, &terms.collect::<SmallVec<[_; 8]>>());
        shared.release()?;
        group.comm().count_in_place(elements * size_of::<T>());
        Ok(true)
    }

    /// Whether members may see each other's tiles. If they may, tiles in flight are combined first, which keeps the order.
    fn can_meet(&mut self, group: &Group, target: &mut Target<'_, T>) -> Result<bool> {
        if self.how.by_messages || group.peers().is_none() {
            return Ok(false);
        }
        for _ in 0..self.in_flight.len() {
            self.combine_next(group.comm(), target)?;
            self.depart(None);
        }
        Ok(true)
    }

    /// Begins sums of which each member computes a piece, for the member `root`, or for each member if no root is given.
    fn send_pieces(&mut self, group: &Group, own: Rc<Subarray>, root: Option<usize>, op: ReduceOp) -> Result<()> {
        let (me, len) = (group.rank(), self.tile.sums().len());
        let mut pieces = pieces(0..len, group.size());
        let others = || pieces.iter().enumerate().filter(|(member, _)| *member != me);
        let terms = |piece: &Range<usize>| {
            let terms = cast_slice::<T, u8>(&self.tile.buffer[piece.clone()]);
            Piece::copy_of(terms, "a message of a tile").map(Arc::new)
        };
        let sends = others().filter(|(_, piece)| !piece.is_empty()).map(|(to, piece)| Ok((to, terms(piece)?)));
        let receives = others().filter(|_| !pieces[me].is_empty());
        let receives = receives.map(|(from, _)| Ok((from, room_for::<T>(pieces[me].len())?)));
        let sums = Sums {
            flight: flight(group.comm(), sends.collect::<Result<_>>()?, receives.collect::<Result<_>>()?)?,
            own: terms(&pieces[me])?,
            are_taken: false,
            me,
            lengths: pieces.iter().map(|piece| piece.len() * size_of::<T>()).collect(),
            root,
            dtype: T::DTYPE,
            op,
        };
        let mine = pieces.remove(me);
        let others = pieces.into_iter().filter(|piece| root.is_none_or(|root| root == me) && !piece.is_empty());
        let end = End::Sums { own, mine, others: others.collect() };
        self.depart(Some((Posted::Sums(Box::new(sums)), end)));
        Ok(())
    }

    /// Sends the tile to the world's rank `to`, which owns all of it, and combines the tile of the rank and region of `from` into this
    /// rank's shard (MPI 3.1, section 3.7).
    ///
    /// Nothing is sent if the tile is empty, and nothing is received if `from` is `None` or its region is empty. Stages the data that it
    /// receives.
    pub(crate) fn permute_back(
        &mut self,
        grid: &Grid<'_>,
        to: usize,
        from: Option<(usize, Region)>,
        target: &mut Target<'_, T>,
        when: When,
    ) -> Result<()> {
        let exchange = Exchange::write_back_to(grid, self.tile.region(), to, from, target.array);
        let terms = Fetch::of_terms(exchange);
        self.deliver(grid.world().comm(), Rc::new(terms), Fold::Each, target, when)
    }

    /// Sends each owner its part of the tile, and combines the terms that others wrote for this rank's shard into it; `region_of` returns
    /// each rank's region from its coordinates (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// before   rank 0 wrote: a0 b0    rank 1 wrote: a1 b1
    /// after    owner of a: a op a0 op a1    owner of b: b op b0 op b1
    /// ```
    ///
    /// One message per pair of ranks; if an axis replicates the array, every owner gets its own. Stages the data that it receives. `reach`
    /// is where owners are, relative to writers: no other ranks are considered. Along axes of partial sums, the owners are those at this
    /// rank's coordinate.
    pub(crate) fn write_back(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        region_of: impl Fn(&[i64]) -> Region,
        target: &mut Target<'_, T>,
        when: When,
    ) -> Result<()> {
        let (region, own) = (region_of(grid.coords()), self.tile.region());
        assert!(
            region == *own || region.is_empty() && own.is_empty(),
            "a tile of {own} is written back as {region}; this is a bug in polyshard"
        );
        let find = || {
            let exchange = Exchange::write_back(grid, reach, target.array, &region, region_of);
            Fetch::of_terms(exchange)
        };
        let terms = if self.how.is_fixed { self.found.get(&region, true, find) } else { Rc::new(find()) };
        self.deliver(grid.world().comm(), terms, Fold::Each, target, when)
    }

    /// Sends and receives terms, and combines them.
    fn deliver(
        &mut self,
        comm: &dyn Communicator,
        route: Rc<Fetch>,
        fold: Fold,
        target: &mut Target<'_, T>,
        when: When,
    ) -> Result<()> {
        self.tile.sums();
        let terms = &route.exchange;
        if when == When::Later {
            let posted = Posted::Messages(post(comm, terms, Place::Region, &self.tile.buffer)?);
            self.depart(Some((posted, End::Terms(route, fold))));
            return Ok(());
        }
        self.incoming.grow(total(&terms.receives), "terms to combine into an array")?;
        let ends = Ends {
            element: size_of::<T>(),
            source: (Place::Region, cast_slice(&self.tile.buffer)),
            target: (Place::Packed, cast_slice_mut(&mut self.incoming)),
        };
        // Packed terms are contiguous.
        let staging = [&mut self.outgoing, &mut Buffer::default()];
        mail::exchange(comm, Turns::Together, terms, ends, staging)?;
        let received = split_mut(&mut self.incoming, terms.receives.iter().map(|(_, part)| part.len()));
        let received = received.map(|packed| &*packed);
        target.combine_received(terms, fold, received, &self.tile.buffer);
        Ok(())
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
    pub(crate) fn take_over(&mut self, group: &Group, by: i64, region: &Region) -> Result<()> {
        one_box(region);
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        if from == group.rank() {
            let own = self.tile.region();
            assert!(
                *region == *own || region.is_empty() && own.is_empty(),
                "a shift by {by} in a group of {} changes a tile of {own} to {region}; this is a bug in polyshard",
                group.size(),
            );
            return Ok(());
        }
        self.incoming.grow(self.tile.buffer.len(), "the second buffer of a tile")?;
        let data = &*self.tile.sums();
        mail::pass_on(group.comm(), Some((to, data)), Some((from, room(&mut self.incoming, region))))?;
        std::mem::swap(&mut self.tile.buffer, &mut self.incoming);
        self.tile.held = Held::Buffer(region.clone());
        Ok(())
    }
}

/// Adds up the members' terms of `region`, each of which gets its part into its shard; by messages even if members could see each other's
/// terms, if `by_messages`.
pub(crate) fn scatter<T: Element>(
    group: &Group,
    by_messages: bool,
    region: &Region,
    terms: &[T],
    parts: Vec<Subarray>,
    target: &mut DistArray<T>,
) -> Result<()> {
    let mut tile = Tile::to_be_read("partial sums", terms.len())?;
    tile.buffer[..terms.len()].copy_from_slice(terms);
    tile.held = Held::Buffer(region.clone());
    let own = Rc::new(parts[group.rank()].clone());
    let mut link = Link::new(tile, How { by_messages, ..How::default() });
    let mut target = Target { array: target, op: ReduceOp::Sum, written: None };
    link.sum_parts(group, own, |_, _| parts, &mut target, When::Now)
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
pub(super) fn parts_of_target<T: Element>(group: &Group, target: &DistArray<T>, region: &Region) -> Vec<Subarray> {
    parts_of(group, target.sharding(), region, |member| Subarray::of(target.sharding(), member, region))
}
