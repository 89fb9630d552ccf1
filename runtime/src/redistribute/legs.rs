//! Execution of the legs that redistribute an array, with the buffers that runs reuse.
//!
//! Partial sums are closed on the way. If the target does not place dimensions over the axes of the terms, the terms of an element are on
//! the ranks of one group, which add them up by one reduction: to all members, or to the one to which the target pins them. If it does,
//! each rank needs a part of every term. If all of them are in its group, each member gets its part of the others' tiles; else each layer
//! of terms is redistributed separately, and the parts are added up. All sums are taken in the order of the coordinates, so that the bits
//! are the same everywhere, and each rank receives no more than a reduction or a reduce-scatter has to move.

use super::group_exchange::{GroupExchange, Held};
use super::{Redistribution, check};
use crate::comm::{Combining, Communicator, Flight, Piece, combine, exchange_words};
use crate::engine::Coordinates;
use crate::exchange::WithRank;
use crate::groups::Groups;
use crate::layout::Sharding;
use crate::memory::Buffer;
use crate::reduce::Steps;
use crate::subarray::mail::{self, Ends, Turns};
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Group, RedistributionError, ReduceOp, Region, Result, Transport, World, tile};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::{Algorithm, CHUNK, Direction, Expr, Leg, Owners, Packing, Route, common_mesh, summed_up};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

impl Redistribution {
    /// Works out the exchanges of this route from `source` to `target`; each rank sends the elements that it owns by `kept`, a part of
    /// those that it holds, or all. Collective over the world.
    pub(super) fn made(
        world: &World,
        source: &Sharding,
        kept: Option<&Sharding>,
        target: &Sharding,
        route: &Route,
    ) -> Result<Self> {
        let number = world.number_redistribution();
        check::agree(world, number, source, kept, target, route)?;
        let kept = kept.unwrap_or(source);
        let closed = source.closed_axes(target).map_err(RedistributionError::from)?;
        let (mesh, at) = (source.mesh(), source.mesh().coordinates(world.rank()));
        let of_legs = if closed.is_empty() { common_mesh(kept, target) } else { mesh.clone() };
        let groups = route.legs.iter().filter_map(Leg::group);
        let groups = Groups::new(groups, |axes, _| world.group(&of_legs, axes))?;
        // Sums are moved on after they have been added up.
        let summed = (!closed.is_empty()).then(|| summed_up(source, target, &closed));
        let [held, owned] = summed.as_ref().map_or([source, kept], |summed| [summed, summed]);
        let (mut exchange, mut parts, mut layers, mut mine, mut steps) = (None, None, Vec::new(), 0, None);
        let direction = Direction::between(source, target);
        let taken = route.taken(direction);
        for &(leg, direction) in &taken {
            match (leg, direction) {
                (leg, _) if leg.procedure().is_some() => {
                    steps = leg.procedure().map(|procedure| Steps::new(world, procedure)).transpose()?;
                }
                (_, Direction::In) => exchange = Some(exchange_between(world, [held, owned, target], leg)?),
                (Leg::Collective { axes, owners: Owners::Parts, .. }, _) => {
                    let term = Subarray::of(source, &at, &Region::whole(source.shape()));
                    let term =
                        term.region().expect("a term is one block, as its route says; this is a bug in polyshard");
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
        // Ranks that a leg names do not vary.
        let at = |exprs: &Vec<Expr>| {
            let at = exprs.iter().map(Expr::offset).collect();
            Coordinates::new(move |_, _| SmallVec::clone(&at))
        };
        let legs = taken.iter().map(|(leg, direction)| (leg.map(at), *direction)).collect();
        let memory = Rc::clone(world.memory()?);
        let scattered = exchange.iter().chain(&layers).map(GroupExchange::scattered);
        let own = scattered.fold([0; 2], |most, exchange| [most[0].max(exchange[0]), most[1].max(exchange[1])]);
        // A rank that shares memory with its whole group names itself.
        let other = exchange.as_ref().and_then(|exchange| exchange.apart(&*memory)).unwrap_or(world.rank());
        let words = [own[0], own[1], other].map(|word| word as u64);
        let told = exchange_words(world.comm(), "the pieces of a redistribution", words)?;
        let scattered = [0, 1].map(|side| told.iter().map(|words| words[side] as usize).max().unwrap_or(0));
        let mut others = told.iter().map(|words| words[2] as usize).enumerate();
        let apart = others.find(|(rank, other)| rank != other);
        Ok(Self {
            source: source.clone(),
            target: target.clone(),
            transport: world.transport(),
            op: ReduceOp::Sum,
            route: route.clone(),
            legs,
            groups,
            exchange,
            parts,
            layers,
            mine,
            steps,
            memory,
            number,
            apart,
            scattered,
            staging: RefCell::default(),
        })
    }

    /// Returns the maximum bytes in which messages are packed and unpacked on any rank, with `element` bytes per element.
    pub(super) fn packed_bytes(&self, element: usize) -> usize {
        let [out, back] = self.scattered.map(|elements| elements * element);
        let staged = match self.route.legs[..] {
            // Gathered data is packed whole, and received in place.
            [Leg::Collective { .. }] => [out, 0],
            _ => [out, back].map(|bytes| bytes.min(CHUNK as usize)),
        };
        staged.iter().map(|bytes| bytes.next_multiple_of(size_of::<u64>())).sum()
    }

    /// Returns the bytes of the staging buffers now.
    #[cfg(test)]
    pub(super) fn staged(&self) -> usize {
        self.staging.borrow().iter().map(|buffer| size_of_val(&buffer[..])).sum()
    }

    /// Whether its messages can be in flight while something else is computed: if it is one exchange, by messages. The same on all ranks
    /// that exchange elements.
    pub(crate) fn can_be_in_flight(&self) -> bool {
        let ([(Leg::Exchange { .. }, Direction::In)], Some(exchange)) = (&self.legs[..], &self.exchange) else {
            return false;
        };
        match self.transport {
            Transport::Messages => true,
            Transport::Auto => exchange.apart(&*self.memory).is_some(),
            Transport::Shared => false,
        }
    }

    /// Posts the messages of the exchange; none if this rank neither sends nor receives any.
    pub(crate) fn post<T: Element>(&self, source: &[T]) -> Result<Option<Flight>> {
        match self.exchange.as_ref().and_then(|exchange| Some((exchange, exchange.comm.as_ref()?))) {
            Some((exchange, comm)) => tile::post(&**comm, &exchange.part, Place::Block, source),
            None => Ok(None),
        }
    }

    /// Writes the messages that the exchange has received, and the elements that this rank keeps, to the target.
    pub(crate) fn unpack<T: Element>(
        &self,
        received: &[Piece],
        source: &DistArray<T>,
        target: &mut DistArray<T>,
    ) -> Result<()> {
        let part = self.exchange.as_ref().map(|exchange| &exchange.part);
        part.map_or(Ok(()), |part| part.put_together(source.into(), received, target.block_mut()))
    }

    /// Moves the pieces of an exchange: others' blocks are read in place, if the transport allows it and the ranks share memory, else the
    /// pieces are moved by calling `by_messages`.
    fn pass<T: Element>(
        &self,
        exchange: &GroupExchange,
        transport: Transport,
        from: &Held<'_, T>,
        to: &mut [T],
        by_messages: impl FnOnce(&dyn Communicator, &[u8], &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        // Groups differ in whether they are inside a node, but all ranks return the error together.
        if let (Transport::Shared, Some((rank, other))) = (transport, self.apart) {
            return Err(RedistributionError::Apart { rank, other }.into());
        }
        let Some(comm) = &exchange.comm else {
            exchange.own().copy(Place::Block, from, Place::Region, to);
            return Ok(());
        };
        if transport != Transport::Messages && exchange.apart(&*self.memory).is_none() {
            match exchange.read_in_place(&**comm, &*self.memory, self.number, from, to)? {
                None => return Ok(()),
                Some(rank) if transport == Transport::Shared => {
                    return Err(RedistributionError::PrivateInput { rank }.into());
                }
                Some(_) => {}
            }
        }
        by_messages(&**comm, cast_slice(from), cast_slice_mut(to))
    }

    /// Moves the pieces of an exchange by messages: if rows are described by layouts and the library has derived datatypes, all pieces at
    /// once, else between one pair of ranks after the other (MPI 3.1, sections 3.10, 4.1 and 5.8).
    fn exchange_by_messages(
        &self,
        (exchange, comm): (&GroupExchange, &dyn Communicator),
        packing: Packing,
        element: usize,
        source: &[u8],
        target: &mut [u8],
    ) -> Result<()> {
        exchange.own().rows(Place::Block, Place::Region).copy(usize::MAX, element, source, target);
        if packing == Packing::LaidOut {
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
        mail::exchange(comm, Turns::ByDistance, &exchange.part, ends, self.staging.borrow_mut().each_mut())
    }
}

/// The exchange of a leg between ranks that hold elements by one sharding, own them by another, and get them by a third.
fn exchange_between(world: &World, [held, owned, target]: [&Sharding; 3], leg: &Leg) -> Result<GroupExchange> {
    let mesh = common_mesh(owned, target);
    let between = |owner, reader| Subarray::between(held, owned, owner, target, reader);
    let reach = leg.reach(&mesh).expect("no array is permuted by a leg; this is a bug in polyshard");
    let exchange = GroupExchange::new(world, &mesh, &reach, between)?;
    let (found, wanted) = (exchange.found(), target.local_len(&target.mesh().coordinates(world.rank())));
    assert_eq!(found, wanted, "{held} to {target} by {leg:?}; this is a bug in polyshard");
    Ok(exchange)
}

/// The ends of a leg between two arrays: what this rank holds before, and the target.
pub(crate) struct Arrays<'e, 'r, T: Element> {
    pub(super) of: &'e Redistribution,
    pub(super) held: &'e mut Held<'r, T>,
    pub(super) target: &'e mut DistArray<T>,
    /// Whether the leg closes sums.
    pub(super) closes_sums: bool,
    /// Whether the data is in the target.
    pub(super) is_there: &'e mut bool,
}

impl<T: Element> Arrays<'_, '_, T> {
    fn exchange_of(of: &Redistribution) -> &GroupExchange {
        of.exchange.as_ref().expect("a route has the pieces of its exchange; this is a bug in polyshard")
    }

    /// Sends each rank the elements that it needs from this one; terms of sums, those of one coordinate after the other, are added up where
    /// the target has the sums.
    pub(crate) fn exchange(self, packing: Packing) -> Result<()> {
        *self.is_there = true;
        let Self { of, held, target, .. } = self;
        let target = target.block_mut();
        let pass = |exchange: &GroupExchange, transport: Transport, from: &Held<'_, T>, to: &mut [T]| {
            of.pass(exchange, transport, from, to, |comm, from, to| {
                of.exchange_by_messages((exchange, comm), packing, size_of::<T>(), from, to)
            })
        };
        if !self.closes_sums {
            return pass(Self::exchange_of(of), of.transport, held, target);
        }
        // Whether ranks share memory is known of exchanges of elements alone.
        let transport = if of.transport == Transport::Shared { Transport::Auto } else { of.transport };
        let nothing = Held::nothing();
        let from = |layer: usize| if layer == of.mine { &*held } else { &nothing };
        let [first, others @ ..] = &of.layers[..] else { return Ok(()) };
        pass(first, transport, from(0), target)?;
        let mut term = Buffer::new(target.len(), "a term of sums")?;
        for (number, layer) in (1..).zip(others) {
            pass(layer, transport, from(number), &mut term)?;
            combine(T::DTYPE, ReduceOp::Sum, cast_slice_mut(target), cast_slice(&term));
        }
        Ok(())
    }

    /// Gathers the shards of the members of a group, which, concatenated, are the part of each member; of sums, adds up all terms of each
    /// member's part.
    pub(crate) fn parts(self, group: &Group) -> Result<()> {
        *self.is_there = true;
        if self.closes_sums {
            return self.reduce_scatter(group);
        }
        let (of, exchange) = (self.of, Self::exchange_of(self.of));
        of.pass(exchange, of.transport, self.held, self.target.block_mut(), |_, from, to| {
            mail::all_gather(group, &exchange.parts(), size_of::<T>(), from, to, of.staging.borrow_mut().each_mut())
        })
    }

    /// Adds up the terms of the members of a group on the one with these coordinates, or on all of them.
    pub(crate) fn reduce(self, group: &Group, root: Option<&[i64]>, by: &Algorithm) -> Result<()> {
        if let Some(steps) = &self.of.steps {
            *self.is_there = true;
            self.target.block_mut().copy_from_slice(self.held);
            steps.reserve(self.held.len(), size_of::<T>())?;
            return steps.run(self.target.block_mut(), self.of.op);
        }
        let mut sums = Buffer::to_be_read(self.held.len(), "partial sums")?;
        sums.copy_from_slice(self.held);
        let combining = Combining { dtype: T::DTYPE, op: ReduceOp::Sum, by: by.of_sums() };
        let root = root.map(|root| group.member_at(root));
        match root {
            Some(root) => group.comm().reduce(root, cast_slice_mut(&mut sums), combining)?,
            None => group.comm().all_reduce(cast_slice_mut(&mut sums), combining)?,
        }
        let is_wanted = root.is_none_or(|root| root == group.rank());
        *self.held = if is_wanted { Held::Sums(Arc::new(sums)) } else { Held::nothing() };
        Ok(())
    }

    fn reduce_scatter(self, group: &Group) -> Result<()> {
        let (term, parts) =
            self.of.parts.as_ref().expect("a route has the parts of its sums; this is a bug in polyshard");
        self.target.block_mut().fill(T::ZERO);
        let by_messages = self.of.transport == Transport::Messages;
        tile::scatter(group, by_messages, term, self.held, parts.clone(), self.target)
    }
}
