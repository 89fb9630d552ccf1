//! Tiles whose regions are requested before they are read: messages are in flight while a leaf computes.
//!
//! ```text
//! begin_..    posts this rank's sends and receives for the region of a later iteration
//! poll        drives them, between slices of a leaf or on the progress thread
//! arrive      waits for the region that began first, which the tile then holds
//! ```
//!
//! All ranks begin in the same order. Data that a rank sees in shared memory is read when it is needed: nothing is posted for it. A region
//! that one rank sends stays in the message, on both sides; no rank writes to it any more.

use super::fetch::{Fetch, all_parts};
use super::under_way::{Begun, Transfers, flight};
use super::{Held, Tile, cyclic_neighbour, one_box, root};
use crate::comm::{Communicator, Flight, Piece, Rounds, connect};
use crate::exchange::{Exchange, owned, total};
use crate::layout::Neighbours;
use crate::progress::UnderWay;
use crate::subarray::{Place, Subarray};
use crate::{Element, Grid, Group, Region, Result, Shards, World};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::Passing;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A region in flight to a tile.
pub(super) struct InFlight {
    region: Region,
    source: InFlightFrom,
}

/// What a tile holds when a region has arrived.
enum InFlightFrom {
    /// The region that it holds already.
    Tile,
    /// The message that this rank sends, or else the one that it receives.
    Message(Option<Arc<Piece>>),
    /// The region that an exchange assembles.
    Exchange(Rc<Fetch>),
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("region", &self.region).finish_non_exhaustive()
    }
}

impl<T: Element> Tile<T> {
    /// Returns a tile whose regions may be requested up to `depth` iterations before they are read. A region that a group gets from one
    /// owner, as in a [broadcast](Self::begin_broadcast), travels as `passing` says: from the owner to each member, or from member to
    /// member, which takes communicators of its own. The links are connected here, by an empty message over each, so all members of the
    /// group must create the tile.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and if another rank failed.
    pub(crate) fn ahead(name: &str, elements: usize, depth: usize, passing: Option<(&Group, Passing)>) -> Result<Self> {
        let passed_on = passing.filter(|(_, passing)| !passing.is_direct());
        let lanes = passed_on.iter().flat_map(|(group, _)| (0..=depth).map(|_| group.comm().lane()));
        let transfers = Transfers::by(lanes.collect::<Result<_>>()?);
        if let Some((group, how)) = passing {
            connect(group.comm(), how)?;
        }
        Ok(Self { transfers, passing: passing.map_or(Passing::Direct, |(_, how)| how), ..Self::new(name, elements)? })
    }

    /// Returns the tile, connected to the ranks in reach from which it receives ahead of time: by an empty message over each link, so all
    /// ranks of the grid must call it.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn connected(self, grid: &Grid<'_>, reach: &Neighbours) -> Result<Self> {
        grid.connect(reach)?;
        Ok(self)
    }

    /// Forgets the transfers that a failed run left in flight; dropping them makes every later call of this rank an error. Every run begins
    /// with it.
    pub(crate) fn restart(&mut self) {
        self.in_flight.clear();
        self.transfers.clear();
    }

    fn begin(&mut self, region: &Region, flight: Option<Flight>, source: InFlightFrom) {
        self.begin_by(region, Begun::Messages(flight), source);
    }

    fn begin_by(&mut self, region: &Region, begun: Begun, source: InFlightFrom) {
        self.transfers.begin(begun);
        self.in_flight.push_back(InFlight { region: region.clone(), source });
    }

    /// As [`copy`](Self::copy) of a region of this rank's own shard, but the region [arrives](Self::arrive) later; it is not copied if it
    /// is one box of the shard.
    ///
    /// # Panics
    /// As for [`copy`](Self::copy).
    pub(crate) fn begin_own<'a>(&mut self, source: impl Into<Shards<'a, T>>, region: &Region) {
        let near = self.own(source.into(), region);
        self.begin(region, None, InFlightFrom::Exchange(near));
    }

    /// As [`broadcast`](Self::broadcast), but does not wait: the region [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// If another rank failed, or there is too little memory for the message.
    ///
    /// # Panics
    /// As for [`broadcast`](Self::broadcast).
    pub(crate) fn begin_broadcast<'a>(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let (source, root) = (source.into(), root(group, root_coordinates, region));
        let is_root = group.rank() == root;
        let (begun, from) = if let Some(near) = self.near(source, group, Some(root), region) {
            (Begun::Messages(None), InFlightFrom::Exchange(near))
        } else {
            let mut message = room_for::<T>(region.len())?;
            if is_root {
                let own = owned(source.array(), source.coordinates(), region);
                own.copy(Place::Block, source.block(), Place::Region, cast_slice_mut(&mut message));
            }
            let size = group.size();
            let cut = |segments: usize| Rounds::segments(message.len(), segments, size_of::<T>());
            match self.passing {
                Passing::Direct => post_to_all(group, root, message)?,
                Passing::Chain(segments) => {
                    let members = (0..size).map(|nth| (root + nth) % size).collect();
                    let rounds = Rounds::chain(members, group.rank(), cut(segments));
                    (self.transfers.passing(rounds.start(message, None))?, InFlightFrom::Message(None))
                }
                Passing::Circulant(segments) => {
                    let rounds = Rounds::circulant(size, group.rank(), root, cut(segments));
                    (self.transfers.passing(rounds.start(message, None))?, InFlightFrom::Message(None))
                }
            }
        };
        self.begin_by(region, begun, from);
        Ok(())
    }

    /// As [`all_gather`](Self::all_gather), but does not wait: each owner sends its part to each member, and the region
    /// [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`all_gather`](Self::all_gather).
    pub(crate) fn begin_all_gather<'a>(
        &mut self,
        group: &Group,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        let source = source.into();
        let (flight, fetch) = if let Some(near) = self.near(source, group, None, region) {
            (None, near)
        } else {
            let exchange = Exchange::gather(group, all_parts(source, group, region));
            (
                post(group.comm(), &exchange, Place::Block, source.block())?,
                Rc::new(Fetch::new(source, region, exchange, false)),
            )
        };
        self.begin(region, flight, InFlightFrom::Exchange(fetch));
        Ok(())
    }

    /// As [`permute`](Self::permute), but does not wait: the region [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`permute`](Self::permute).
    pub(crate) fn begin_permute<'a>(
        &mut self,
        grid: &Grid<'_>,
        from: usize,
        to: Option<(usize, Region)>,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let (source, me) = (source.into(), grid.world().rank());
        let sent = |to: usize, region: &Region| to != me && !region.is_empty() && !source.is_seen_by(to);
        let mut sends = Vec::new();
        if let Some((to, region)) = to.filter(|(to, region)| sent(*to, region)) {
            sends.push((to, packed(&owned(source.array(), source.coordinates(), &region), source)?));
        }
        let (receives, from) = match self.near_one(source, from, region) {
            Some(near) => (None, InFlightFrom::Exchange(near)),
            None => (Some((from, room_for::<T>(region.len())?)), InFlightFrom::Message(None)),
        };
        let flight = flight(grid.world().comm(), sends, receives.into_iter().collect())?;
        self.begin(region, flight, from);
        Ok(())
    }

    /// As [`exchange`](Self::exchange), but does not wait: the region [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`exchange`](Self::exchange).
    pub(crate) fn begin_exchange<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        let (source, region) = (source.into(), region_of(grid.coords()));
        let exchange = Exchange::fetch(grid, reach, source, &region, region_of);
        source.count(total(&exchange.seen));
        let flight = post(grid.world().comm(), &exchange, Place::Block, source.block())?;
        let fetch = Fetch::new(source, &region, exchange, false);
        self.begin(&region, flight, InFlightFrom::Exchange(Rc::new(fetch)));
        Ok(())
    }

    /// As [`halo`](Self::halo), but does not wait: the rest of the region [arrives](Self::arrive) later, and until then the part that this
    /// rank owns can be read.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`halo`](Self::halo).
    pub(crate) fn begin_halo<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        let (source, region) = (source.into(), region_of(grid.coords()));
        let fetch = self.exchanged(grid, reach, source, &region, region_of, true);
        source.count(total(&fetch.exchange.seen));
        let flight = post(grid.world().comm(), &fetch.exchange, Place::Block, source.block())?;
        let from = if fetch.is_own() {
            // This rank owns all of it.
            self.hold_fetched(source, &region, &fetch, &[])?;
            InFlightFrom::Tile
        } else {
            self.held = fetch.held(&region);
            InFlightFrom::Exchange(fetch)
        };
        self.begin(&region, flight, from);
        Ok(())
    }

    /// As [`shift`](Self::shift), but does not wait: the region that the tile holds is sent while it is read, and the next one
    /// [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`shift`](Self::shift).
    pub(crate) fn begin_shift<'a>(
        &mut self,
        group: &Group,
        by: i64,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let source = source.into();
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        let (flight, from) = if let Some(near) = self.anywhere(source, region, from != group.rank()) {
            (None, InFlightFrom::Exchange(near))
        } else if from == group.rank() {
            self.holds(region);
            (None, InFlightFrom::Tile)
        } else {
            let message = self.message(source)?;
            let sends = if message.is_empty() { Vec::new() } else { vec![(to, message)] };
            let (receives, arrives) = match region.is_empty() {
                true => (Vec::new(), InFlightFrom::Exchange(Rc::clone(&self.nothing))),
                false => (vec![(from, room_for::<T>(region.len())?)], InFlightFrom::Message(None)),
            };
            (flight(group.comm(), sends, receives)?, arrives)
        };
        self.begin(region, flight, from);
        Ok(())
    }

    /// The region that the tile holds, as a message.
    fn message(&mut self, source: Shards<'_, T>) -> Result<Arc<Piece>> {
        if let Held::Message(_, message) = &self.held {
            return Ok(Arc::clone(message));
        }
        let data = self.held.data(&mut self.buffer, source)?;
        Ok(Arc::new(Piece::copy_of(cast_slice(data), "a message that a tile sends")?))
    }

    /// Drives the receives that are in flight, without waiting; returns whether some are still in flight and need to be polled again, which
    /// is not necessary with a [progress thread](World::poll_meanwhile).
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn poll(&mut self, world: &World) -> Result<bool> {
        self.transfers.poll(world)
    }

    /// Returns the receives in flight, for the [progress thread](World::poll_meanwhile).
    #[must_use]
    pub(crate) fn under_way(&self) -> UnderWay {
        self.transfers.handle()
    }

    /// Waits for the region that was requested first, and holds it.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If nothing has begun: a bug in polyshard.
    pub(crate) fn arrive<'a>(&mut self, world: &World, source: impl Into<Shards<'a, T>>) -> Result<()> {
        let in_flight = self.in_flight.pop_front();
        let InFlight { region, source: from } =
            in_flight.expect("a region arrives that has not begun to come; this is a bug in polyshard");
        let received = self.transfers.finish(world.comm())?.received;
        match from {
            InFlightFrom::Tile => {}
            InFlightFrom::Exchange(fetch) => self.hold_fetched(source.into(), &region, &fetch, &received)?,
            InFlightFrom::Message(message) => {
                let message = message.or_else(|| received.into_iter().next().map(Arc::new));
                self.held = Held::Message(region, message.expect("one message is received"));
            }
        }
        Ok(())
    }
}

/// A message with room for `elements` elements, to be filled.
pub(super) fn room_for<T: Element>(elements: usize) -> Result<Piece> {
    Piece::new(elements * size_of::<T>(), "a message of a tile")
}

/// A part of this rank's shard, as a message.
fn packed<T: Element>(part: &Subarray, source: Shards<'_, T>) -> Result<Arc<Piece>> {
    message(part, Place::Block, source.block())
}

/// A part of the data in `place`, as a message.
fn message<T: Element>(part: &Subarray, place: Place, data: &[T]) -> Result<Arc<Piece>> {
    let mut message = room_for::<T>(part.len())?;
    part.copy(place, data, Place::Packed, cast_slice_mut(&mut message));
    Ok(Arc::new(message))
}

/// Posts the sends of an exchange, of the data in `place`, and its receives.
pub(super) fn post<T: Element>(
    comm: &dyn Communicator,
    exchange: &Exchange,
    place: Place,
    data: &[T],
) -> Result<Option<Flight>> {
    let mut sends: Vec<(usize, Arc<Piece>)> = Vec::with_capacity(exchange.sends.len());
    for (nth, (to, part)) in exchange.sends.iter().enumerate() {
        // A part that several ranks receive is packed once.
        let same = nth.checked_sub(1).filter(|before| Rc::ptr_eq(&exchange.sends[*before].1, part));
        let message = same.map_or_else(|| message(part, place, data), |before| Ok(Arc::clone(&sends[before].1)))?;
        sends.push((*to, message));
    }
    let receives = exchange.receives.iter().map(|(from, part)| Ok((*from, room_for::<T>(part.len())?)));
    flight(comm, sends, receives.collect::<Result<_>>()?)
}

/// Posts a message from the member `root` to every other member.
fn post_to_all(group: &Group, root: usize, message: Piece) -> Result<(Begun, InFlightFrom)> {
    if group.rank() != root {
        let flight = flight(group.comm(), Vec::new(), vec![(root, message)])?;
        return Ok((Begun::Messages(flight), InFlightFrom::Message(None)));
    }
    let message = Arc::new(message);
    let others = (0..group.size()).filter(|&member| member != root);
    let sends = others.map(|to| (to, Arc::clone(&message))).collect();
    Ok((Begun::Messages(flight(group.comm(), sends, Vec::new())?), InFlightFrom::Message(Some(message))))
}
