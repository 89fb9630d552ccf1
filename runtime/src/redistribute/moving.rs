//! An array in transit to another sharding, leg by leg, and the resources that runs reuse.
//!
//! Partial sums are closed on the way. If the target does not place dimensions over the axes of the terms, the terms of an element are on
//! the ranks of one group, which add them up by one reduction: to all members, or to the one to which the target pins them. If it does,
//! each rank needs a part of every term. If all of them are in its group, each member gets its part of the others' tiles; else each layer
//! of terms is redistributed separately, and the parts are added up. All sums are taken in the order of the coordinates, so that the bits
//! are the same everywhere, and each rank receives no more than a reduction or a reduce-scatter has to move.

use super::group_exchange::GroupExchange;
use super::shared::{self, Outcome, Tile};
use crate::comm::{Combining, SharedMemory, combine, exchange_words};
use crate::exchange::WithRank;
use crate::groups::Groups;
use crate::layout::Sharding;
use crate::memory::{self, Buffer};
use crate::subarray::mail::{self, Ends, Turns};
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Group, RedistributionError, ReduceOp, Region, Result, Transport, World, tile};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::{CHUNK, Direction, Leg, Owners, Packing, Way, summed_up};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// The resources of a route, made once and reused by its runs.
pub(super) struct Moved {
    way: Way,
    groups: Groups,
    /// The exchange that moves elements, or sums that are closed, to the target.
    exchange: Option<GroupExchange>,
    /// The region of a term, and the part of it that each member of its group gets.
    parts: Option<(Region, Vec<Subarray>)>,
    /// The exchanges that move the terms to where the target has the sums, one per coordinate, and the number of the one with this rank's
    /// terms.
    layers: Vec<GroupExchange>,
    mine: usize,
    pub(super) memory: Rc<dyn SharedMemory>,
    /// The redistribution's number: the same on all ranks, and unique in the world.
    number: u64,
    /// The first rank that exchanges elements with a rank on a different node, and that rank; the same on all ranks.
    apart: Option<(usize, usize)>,
    /// The largest scattered piece on each side, on any rank.
    scattered: [usize; 2],
    staging: RefCell<Staging>,
}

/// The buffers in which messages are packed and unpacked, allocated in the first run and reused.
#[derive(Default)]
struct Staging {
    // 8-byte words, so that every element type is aligned.
    outgoing: Buffer<u64>,
    incoming: Buffer<u64>,
}

impl Staging {
    fn buffers(&mut self) -> [&mut Buffer<u64>; 2] {
        [&mut self.outgoing, &mut self.incoming]
    }
}

impl Moved {
    /// Works out the exchanges of this route from `source` to `target`; each rank sends the elements that it owns by `kept`, a part of
    /// those that it holds. `number` is the redistribution's. Collective over the world.
    ///
    /// # Errors
    /// As [`World::group`], and if another rank failed.
    pub(super) fn new(world: &World, number: u64, [source, kept, target]: [&Sharding; 3], way: &Way) -> Result<Self> {
        let closed = source.closed_axes(target).map_err(RedistributionError::from)?;
        let (mesh, at) = (source.mesh(), source.mesh().coordinates(world.rank()));
        let of_legs = if closed.is_empty() { Way::mesh(kept, target) } else { mesh.clone() };
        let groups = way.legs.iter().filter_map(Leg::group);
        let groups = Groups::new(groups, |axes, _| world.group(&of_legs, axes))?;
        // Sums are moved on after they have been added up.
        let summed = (!closed.is_empty()).then(|| summed_up(source, target, &closed));
        let [held, owned] = summed.as_ref().map_or([source, kept], |summed| [summed, summed]);
        let (mut exchange, mut parts, mut layers, mut mine) = (None, None, Vec::new(), 0);
        for (leg, direction) in way.taken() {
            match (leg, direction) {
                (_, Direction::In) => exchange = Some(exchange_between(world, [held, owned, target], leg)?),
                (Leg::Collective { axes, owners: Owners::Parts, .. }, _) => {
                    let term = Subarray::of(source, &at, &Region::whole(source.shape()));
                    let term = term.region().expect("a term is one block, as its way says; this is a bug in polyshard");
                    let group = groups.along(axes, None);
                    let part = |member| Subarray::of(target, &group.coordinates(member), &term);
                    let of_all = (0..group.size()).map(part).collect();
                    parts = Some((term, of_all));
                }
                (Leg::Exchange { .. }, _) => {
                    let members: Vec<_> = mesh.members(&at, &closed).collect();
                    mine = members.iter().position(|member| *member == at).expect("a rank is in its own group");
                    for member in members {
                        let coordinates: Vec<_> = closed.iter().map(|&axis| (axis, member[axis])).collect();
                        let layer = source.pinned(&coordinates);
                        layers.push(exchange_between(world, [&layer, &layer, target], leg)?);
                    }
                }
                _ => {}
            }
        }
        let memory = world.memory()?;
        let scattered = exchange.iter().chain(&layers).map(GroupExchange::scattered);
        let own = scattered.fold([0; 2], |most, exchange| [most[0].max(exchange[0]), most[1].max(exchange[1])]);
        // A rank that shares memory with its whole group names itself.
        let other = exchange.as_ref().and_then(|exchange| exchange.apart(&*memory)).unwrap_or(world.rank());
        let words = [own[0], own[1], other].map(|word| word as u64);
        let told = exchange_words(world.comm(), "the pieces of a redistribution", words)?;
        let scattered = [0, 1].map(|side| told.iter().map(|words| words[side] as usize).max().unwrap_or(0));
        let mut others = told.iter().map(|words| words[2] as usize).enumerate();
        let apart = others.find(|(rank, other)| rank != other);
        let (way, staging) = (way.clone(), RefCell::default());
        Ok(Self { way, groups, exchange, parts, layers, mine, memory, number, apart, scattered, staging })
    }

    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the maximum bytes in which messages are packed and unpacked on any rank, with `element` bytes per element.
    pub(super) fn staging_bytes(&self, element: usize) -> usize {
        let [out, back] = self.scattered.map(|elements| elements * element);
        let staged = match self.way.legs[..] {
            // Gathered data is packed whole, and received in place.
            [Leg::Collective { .. }] => [out, 0],
            _ => [out, back].map(|bytes| bytes.min(CHUNK as usize)),
        };
        staged.iter().map(|bytes| bytes.next_multiple_of(size_of::<u64>())).sum()
    }

    /// Returns the bytes of the staging buffers now.
    #[cfg(test)]
    pub(super) fn staged(&self) -> usize {
        let Staging { outgoing, incoming } = &*self.staging.borrow();
        size_of_val(&outgoing[..]) + size_of_val(&incoming[..])
    }

    /// Returns whether any rank sends elements to another, apart from terms of sums.
    pub(super) fn communicates(&self) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.communicates)
    }

    /// Moves the pieces of an exchange.
    fn exchange<T: Element>(
        &self,
        exchange: &GroupExchange,
        transport: Transport,
        from: &[T],
        to: &mut DistArray<T>,
    ) -> Result<()> {
        self.hand_out(exchange, transport, from, to, |from, to| {
            self.exchange_by_messages(exchange, size_of::<T>(), from, to)
        })
    }

    /// Moves the pieces of an exchange: through shared memory, if the transport allows it and the ranks share some, else by calling
    /// `by_messages`.
    fn hand_out<T: Element>(
        &self,
        exchange: &GroupExchange,
        transport: Transport,
        from: &[T],
        to: &mut DistArray<T>,
        by_messages: impl FnOnce(&[u8], &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let (block, segment) = to.slice_and_segment();
        let (from, block) = (cast_slice(from), cast_slice_mut(block));
        if transport == Transport::Messages {
            return by_messages(from, block);
        }
        // Groups differ in whether they are inside a node, but all ranks return the error together.
        if let (Transport::Shared, Some((rank, other))) = (transport, self.apart) {
            return Err(RedistributionError::Apart { rank, other }.into());
        }
        match shared::run(exchange, &*self.memory, self.number, T::DTYPE, from, Tile::new(block, segment))? {
            Outcome::Done => Ok(()),
            Outcome::Hidden(rank) if transport == Transport::Shared => {
                Err(RedistributionError::PrivateOutput { rank }.into())
            }
            Outcome::Hidden(_) | Outcome::Apart => by_messages(from, block),
        }
    }

    /// Moves the pieces of an exchange by messages: if rows are described by layouts and the library has derived datatypes, all pieces at
    /// once, else between one pair of ranks after the other (MPI 3.1, sections 3.10, 4.1 and 5.8).
    fn exchange_by_messages(
        &self,
        exchange: &GroupExchange,
        element: usize,
        source: &[u8],
        target: &mut [u8],
    ) -> Result<()> {
        exchange.own().rows(Place::Block, Place::Region).copy(usize::MAX, element, source, target);
        let Some(comm) = &exchange.comm else { return Ok(()) };
        if self.way.packing == Packing::LaidOut {
            let layouts = |pieces: &[WithRank], places: [Place; 2], side: usize| {
                let mut layouts: Vec<_> = exchange.members.iter().map(|_| None).collect();
                for (member, piece) in pieces {
                    layouts[*member] = Some(piece.rows(places[0], places[1]).layout(side, element));
                }
                layouts
            };
            let sends = layouts(&exchange.part.sends, [Place::Block, Place::Packed], 0);
            let receives = layouts(&exchange.part.receives, [Place::Packed, Place::Region], 1);
            if comm.all_to_all_laid_out(&sends, source, &receives, target)? {
                return Ok(());
            }
        }
        let ends = Ends { element, source: (Place::Block, source), target: (Place::Region, target) };
        let staging = &mut *self.staging.borrow_mut();
        mail::exchange(&**comm, Turns::ByDistance, &exchange.part, ends, staging.buffers())
    }
}

/// The exchange of a leg between ranks that hold elements by one sharding, own them by another, and get them by a third.
fn exchange_between(world: &World, [held, owned, target]: [&Sharding; 3], leg: &Leg) -> Result<GroupExchange> {
    let mesh = Way::mesh(owned, target);
    let between = |owner, reader| Subarray::between(held, owned, owner, target, reader);
    let reach = leg.reach(&mesh).expect("no array is permuted by a leg; this is a bug in polyshard");
    let exchange = GroupExchange::new(world, &mesh, &reach, between)?;
    let (found, wanted) = (exchange.found(), target.local_len(&target.mesh().coordinates(world.rank())));
    assert_eq!(found, wanted, "{held} to {target} by {leg:?}; this is a bug in polyshard");
    Ok(exchange)
}

/// An array in transit: this rank's part of it, and the target.
pub(crate) struct Moving<'r, T: Element> {
    moved: &'r Moved,
    transport: Transport,
    /// This rank's part of the array, or of the sums of its terms.
    held: Cow<'r, [T]>,
    /// Whether the route still has to close sums.
    closes_sums: bool,
    /// Whether the data is in the target.
    is_there: bool,
    target: &'r mut DistArray<T>,
}

impl<'r, T: Element> Moving<'r, T> {
    pub(super) fn new(moved: &'r Moved, transport: Transport, source: &'r [T], target: &'r mut DistArray<T>) -> Self {
        let closes_sums = moved.way.closes_sums();
        Self { moved, transport, held: Cow::Borrowed(source), closes_sums, is_there: false, target }
    }

    /// Returns whether the leg closes sums; if not, none are open, or they have been closed.
    pub(crate) fn closes_sums(&self) -> bool {
        self.closes_sums
    }

    /// Sends each rank the elements that it needs from this one.
    pub(crate) fn exchange(&mut self) -> Result<()> {
        let exchange =
            self.moved.exchange.as_ref().expect("a way has pieces for its exchange; this is a bug in polyshard");
        self.is_there = true;
        self.moved.exchange(exchange, self.transport, &self.held, self.target)
    }

    /// Gathers the shards of the members of a group, which, concatenated, are the part of each member.
    pub(crate) fn all_gather(&mut self, group: &Group) -> Result<()> {
        self.is_there = true;
        let Moved { exchange, staging, .. } = self.moved;
        let exchange = exchange.as_ref().expect("a way has pieces for its gathering; this is a bug in polyshard");
        self.moved.hand_out(exchange, self.transport, &self.held, self.target, |from, to| {
            if exchange.comm.is_none() {
                // There is nothing to gather, or this rank has all of it.
                exchange.own().rows(Place::Block, Place::Region).copy(usize::MAX, size_of::<T>(), from, to);
                return Ok(());
            }
            mail::all_gather(group, &exchange.parts(), size_of::<T>(), from, to, staging.borrow_mut().buffers())
        })
    }

    /// Adds up the terms of the members of a group on all of them.
    pub(crate) fn all_reduce(&mut self, group: &Group) -> Result<()> {
        self.sum_up(|sums, combining| Ok(group.comm().all_reduce(sums, combining)?))
    }

    /// Adds up the terms of the members of a group on the one with these coordinates.
    pub(crate) fn reduce(&mut self, group: &Group, root: &[i64]) -> Result<()> {
        let root = group.member_at(root);
        self.sum_up(|sums, combining| Ok(group.comm().reduce(root, sums, combining)?))?;
        if root != group.rank() {
            self.held = Cow::Borrowed(&[]);
        }
        Ok(())
    }

    fn sum_up(&mut self, reduce: impl FnOnce(&mut [u8], Combining) -> Result<()>) -> Result<()> {
        let mut sums = memory::room(self.held.len(), "partial sums")?;
        sums.extend_from_slice(&self.held);
        let combining = Combining::in_order(T::DTYPE, ReduceOp::Sum, self.moved.way.in_pieces);
        reduce(cast_slice_mut(&mut sums), combining)?;
        (self.held, self.closes_sums) = (Cow::Owned(sums), false);
        Ok(())
    }

    /// Adds up all terms of each member's part in a group.
    pub(crate) fn reduce_scatter(&mut self, group: &Group) -> Result<()> {
        let (term, parts) =
            self.moved.parts.as_ref().expect("a way has parts for its sums; this is a bug in polyshard");
        self.is_there = true;
        self.target.block_mut().fill(T::ZERO);
        let by_messages = self.transport == Transport::Messages;
        tile::scatter(group, by_messages, term, &self.held, parts.clone(), self.target)
    }

    /// Exchanges the terms of one coordinate after the other, and adds them up where the target has the sums.
    pub(crate) fn add_up(&mut self) -> Result<()> {
        let Moved { layers, mine, .. } = self.moved;
        self.is_there = true;
        // A term is received beside the sums, in private memory.
        let transport = if self.transport == Transport::Shared { Transport::Auto } else { self.transport };
        let held = |layer: usize| if layer == *mine { &self.held[..] } else { &[] };
        let [first, others @ ..] = &layers[..] else { return Ok(()) };
        self.moved.exchange(first, transport, held(0), self.target)?;
        let mut term = self.target.clone();
        for (number, layer) in (1..).zip(others) {
            self.moved.exchange(layer, transport, held(number), &mut term)?;
            combine(T::DTYPE, ReduceOp::Sum, cast_slice_mut(self.target.block_mut()), cast_slice(term.block()));
        }
        Ok(())
    }

    /// Copies sums that no leg has moved into the target.
    pub(super) fn arrive(self) {
        if !self.is_there {
            self.target.block_mut().copy_from_slice(&self.held);
        }
    }
}
