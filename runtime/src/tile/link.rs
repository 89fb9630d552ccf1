//! Links: one rank's side of a transfer between shards and a tile, with its buffers and the messages in flight.
//!
//! ```text
//! an operation, later    posts this rank's sends and receives
//! poll                   drives them, between slices of a leaf or on the progress thread
//! arrive, combine_next   waits for the transfer that began first: the tile holds its region, or its terms are combined
//! ```
//!
//! All ranks begin in the same order. Data that a rank sees in shared memory is read when it is needed: nothing is posted for it. A region
//! that one rank sends stays in the message, on both sides; no rank writes to it any more. An output is combined in the order in which its
//! tiles began, each as by the operation that does not return before it is done, so that sums have the same bits; until then the tile
//! keeps its buffer, which holds this rank's terms.
//!
//! Tests: `tests/it/properties.rs`.

use super::in_flight::{Arrived, Flights, Posted, flight};
use super::route::Fetch;
use super::sequence::Sequence;
use super::terms::{Fold, Target};
use super::{Held, Tile};
use crate::comm::{Communicator, Flight, Links, Piece, SumAlgorithm, connect};
use crate::exchange::Exchange;
use crate::memory::Buffer;
use crate::subarray::{Place, Subarray};
use crate::{Element, Group, PollHandle, ReduceOp, Reduction, Region, Result, Shards, View, World};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::Algorithm;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Where an operation takes the region of an input from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The shards of its owners.
    Shards,
    /// The tiles of other ranks, which hold it already; they need not own it.
    Tiles,
}

/// When an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before it returns.
    Now,
    /// When it is waited for.
    Later,
}

/// What an operation fetches.
#[derive(Clone, Copy)]
pub(crate) struct Fetching<'a, T> {
    pub(crate) source: Shards<'a, T>,
    /// The region of this rank.
    pub(crate) here: &'a Region,
    pub(crate) from: Source,
    pub(crate) when: When,
}

/// How a link carries out its operations; the same on all ranks.
pub(crate) struct How<T> {
    /// Whether the regions of all ranks are the same in every transfer.
    pub(crate) is_fixed: bool,
    /// How a group gets a region.
    pub(crate) by: Algorithm,
    /// How it adds up its terms.
    pub(crate) sums: SumAlgorithm,
    /// Whether sums are sent as messages even if members could read each other's tiles.
    pub(crate) by_messages: bool,
    /// The reduction that adds up the sums of a group, if its steps are given.
    pub(crate) reduction: Option<Reduction<T>>,
}

impl<T> Default for How<T> {
    fn default() -> Self {
        Self {
            is_fixed: false,
            by: Algorithm::Library,
            sums: SumAlgorithm::GatherTerms,
            by_messages: false,
            reduction: None,
        }
    }
}

/// One rank's side of a transfer: into a tile from one array or from arrays with the same layout, or out of a tile.
///
/// An output's tile starts from the value that leaves others unchanged, -0.0 for sums, and is then combined into the owners' shards, so it
/// does not matter how often, by how many ranks or in how many steps an element is written: an element that no step writes keeps its
/// value. Contributions are combined in ascending order of the ranks that wrote them, the same on every run.
pub(crate) struct Link<T: Element> {
    pub(super) tile: Tile<T>,
    pub(super) how: How<T>,
    /// Where messages are packed, and where they are received; the second one takes turns with the tile's buffer where tiles are shifted.
    pub(super) outgoing: Buffer<T>,
    pub(super) incoming: Buffer<T>,
    /// Buffers that hold no tile.
    spare: Vec<Buffer<T>>,
    /// The routes of regions: of an input's in messages or in place, apart from those of exchanges while all ranks see all shards; of an
    /// output's into this rank's own shard, apart from those that are written back.
    pub(super) found: Sequence<Fetch>,
    /// The part of a rank that gets no sums.
    pub(super) no_part: Rc<Subarray>,
    /// The transfers in flight, in the order in which they began, and their messages.
    pub(super) in_flight: VecDeque<InFlight<T>>,
    pub(super) flights: Flights,
}

/// A transfer in flight.
pub(super) struct InFlight<T> {
    region: Region,
    /// This rank's own terms of an output, unless they have been combined.
    buffer: Buffer<T>,
    end: End,
}

/// How a transfer ends.
pub(super) enum End {
    /// There is nothing left to do.
    Done,
    /// The tile holds the message that this rank sends, or else the one that it receives.
    Message(Option<Arc<Piece>>),
    /// The tile holds the region that this route assembles.
    Fetched(Rc<Fetch>),
    /// Terms are combined.
    Terms(Rc<Fetch>, Fold),
    /// This member has the sums of its own piece, and receives those of the others' pieces of the tile.
    Sums { own: Rc<Subarray>, mine: Range<usize>, others: Vec<Range<usize>> },
}

impl<T: Element> Link<T> {
    /// Returns a link with this tile.
    pub(crate) fn new(tile: Tile<T>, how: How<T>) -> Self {
        Self {
            tile,
            how,
            outgoing: Buffer::default(),
            incoming: Buffer::default(),
            spare: Vec::new(),
            found: Sequence::default(),
            no_part: Rc::default(),
            in_flight: VecDeque::new(),
            flights: Flights::default(),
        }
    }

    /// Returns the link with a second buffer that takes turns with the tile's, where tiles are shifted.
    pub(crate) fn relay(mut self) -> Result<Self> {
        self.incoming.grow(self.tile.buffer.len(), "the second buffer of a tile")?;
        Ok(self)
    }

    /// Returns the link of an input, whose regions may be requested up to `depth` iterations before they are read. A region that a group
    /// gets from one owner travels from the owner to each member, or from member to member, which takes communicators of its own. The links
    /// are connected here, by an empty message over each, so all members of the group must call it.
    pub(crate) fn fetched_ahead(mut self, depth: usize, group: Option<&Group>) -> Result<Self> {
        if let Some(group) = group {
            let links = match self.how.by {
                Algorithm::Chain(_) => Links::Chain,
                Algorithm::Circulant(_) => Links::Circulant,
                _ => Links::All,
            };
            if links != Links::All {
                let lanes = (0..=depth).map(|_| group.comm().lane());
                self.flights = Flights::by(lanes.collect::<std::result::Result<_, _>>()?);
            }
            connect(group.comm(), links)?;
        }
        Ok(self)
    }

    /// Returns the link of an output, whose tile may be in flight while the next `depth` are written, each in a buffer of its own. A
    /// `group` is needed if its sums are taken in pieces, which takes a communicator of its own, and connections, made by an empty message
    /// over each link: then all members of the group must call it.
    pub(crate) fn sent_ahead(mut self, name: &str, depth: usize, group: Option<&Group>) -> Result<Self> {
        for _ in 0..depth {
            self.spare.push(Tile::to_be_read(name, self.tile.buffer.len())?.buffer);
        }
        if let Some(group) = group {
            self.flights = Flights::by(vec![group.comm().lane()?]);
            // Each member receives all terms of its piece.
            connect(group.comm(), Links::All)?;
        }
        Ok(self)
    }

    /// Makes all later calls send sums as messages, even if members could read each other's tiles.
    pub(crate) fn use_messages(&mut self) {
        self.how.by_messages = true;
    }

    /// Returns the tile.
    pub(crate) fn tile(&mut self) -> &mut Tile<T> {
        &mut self.tile
    }

    /// Returns the region that the tile's own buffer holds, addressed by global index.
    pub(crate) fn own_view(&self) -> View<'_, T> {
        self.tile.own_view()
    }

    /// Returns the region that the tile holds, addressed by global index; `source` is the array that it was fetched from.
    pub(crate) fn view<'a>(&'a self, source: impl Into<Shards<'a, T>>) -> View<'a, T> {
        self.tile.view(source.into())
    }

    /// Makes its tile that of `region`, as [`Tile::reset`]; in another buffer if the last one is in flight. Moves no data.
    pub(crate) fn reset(&mut self, region: &Region, op: ReduceOp) {
        if self.tile.buffer.len() < region.len() {
            self.tile.buffer = self.spare.pop().unwrap_or_default();
        }
        self.tile.reset(region, op);
    }

    /// Forgets the transfers that a failed run left in flight; dropping them makes every later call of this rank an error. Every run begins
    /// with it.
    pub(crate) fn restart(&mut self) {
        self.flights.clear();
        let buffers = self.in_flight.drain(..).map(|in_flight| in_flight.buffer);
        self.spare.extend(buffers.filter(|buffer| !buffer.is_empty()));
    }

    /// Drives the transfers in flight, without waiting; returns whether some need to be polled again, which is not necessary with a
    /// [progress thread](World::poll_meanwhile).
    pub(crate) fn poll(&mut self, world: &World) -> Result<bool> {
        Ok(self.flights.poll(world)?)
    }

    /// Returns the transfers in flight, for the [progress thread](World::poll_meanwhile).
    pub(crate) fn poll_handle(&self) -> PollHandle {
        self.flights.handle()
    }

    /// Enqueues a transfer of `region` into the tile.
    pub(super) fn begin(&mut self, region: &Region, posted: Posted, end: End) {
        self.flights.begin(posted);
        self.in_flight.push_back(InFlight { region: region.clone(), buffer: Buffer::default(), end });
    }

    /// Enqueues a transfer of the output's tile, which keeps its buffer, or one that is done.
    pub(super) fn depart(&mut self, posted: Option<(Posted, End)>) {
        let (region, mut buffer) = (Region::empty(0), Buffer::default());
        let end = posted.map_or(End::Done, |(posted, end)| {
            self.flights.begin(posted);
            buffer = std::mem::take(&mut self.tile.buffer);
            end
        });
        self.in_flight.push_back(InFlight { region, buffer, end });
    }

    fn next(&mut self) -> InFlight<T> {
        self.in_flight.pop_front().expect("a transfer ends that has not begun; this is a bug in polyshard")
    }

    /// Waits for the region that was requested first, which the tile then holds.
    pub(crate) fn arrive<'a>(&mut self, world: &World, source: impl Into<Shards<'a, T>>) -> Result<()> {
        let InFlight { region, end, .. } = self.next();
        let received = self.flights.finish(world.comm())?.received;
        match end {
            End::Fetched(fetch) if fetch.is_one_message(&region) => {
                let message = received.into_iter().next().expect("one message is received");
                self.tile.held = Held::Message(region, Arc::new(message));
                Ok(())
            }
            End::Fetched(fetch) => self.hold_fetched(source.into(), &region, &fetch, &received),
            End::Message(message) => {
                let message = message.or_else(|| received.into_iter().next().map(Arc::new));
                self.tile.held = Held::Message(region, message.expect("one message is received"));
                Ok(())
            }
            End::Done | End::Terms(..) | End::Sums { .. } => Ok(()),
        }
    }

    /// Waits for the tile that began first, and combines the received terms into this rank's shard.
    pub(crate) fn combine_next(&mut self, comm: &dyn Communicator, target: &mut Target<'_, T>) -> Result<()> {
        let InFlight { mut buffer, end, .. } = self.next();
        if matches!(end, End::Done) {
            return Ok(());
        }
        let Arrived { received, sums } = self.flights.finish(comm)?;
        let received = received.iter().map(|message| cast_slice(message));
        match end {
            End::Terms(route, fold) => target.combine_received(&route.exchange, fold, received, &buffer),
            End::Sums { own, mine, others } => {
                let sums = sums.as_ref().map(|sums| (mine, cast_slice(sums)));
                let all = others.into_iter().zip(received).chain(sums);
                all.for_each(|(place, sums)| buffer[place].copy_from_slice(sums));
                target.combine(&own, &[(&buffer, Place::Region)]);
            }
            End::Done | End::Message(_) | End::Fetched(_) => {}
        }
        if !buffer.is_empty() {
            self.spare.push(buffer);
        }
        Ok(())
    }
}

/// A message with room for `elements` elements, to be filled.
pub(super) fn room_for<T: Element>(elements: usize) -> Result<Piece> {
    Ok(Piece::new(elements * size_of::<T>(), "a message of a tile")?)
}

/// A part of the data in `place`, as a message.
fn message<T: Element>(part: &Subarray, place: Place, data: &[T]) -> Result<Arc<Piece>> {
    let mut message = room_for::<T>(part.len())?;
    part.copy(place, data, Place::Packed, cast_slice_mut(&mut message));
    Ok(Arc::new(message))
}

/// Posts the sends of an exchange, of the data in `place`, and its receives.
pub(crate) fn post<T: Element>(
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
    Ok(flight(comm, sends, receives.collect::<Result<_>>()?)?)
}

/// What a test fetches at once.
#[cfg(test)]
pub(crate) fn now<'a, T: Element>(source: impl Into<Shards<'a, T>>, here: &'a Region) -> Fetching<'a, T> {
    Fetching { source: source.into(), here, from: Source::Shards, when: When::Now }
}

#[cfg(test)]
impl<T: Element> Link<T> {
    /// The link of an input of a test, with room for this many elements.
    pub(crate) fn to_fetch(elements: usize) -> Result<Self> {
        Ok(Self::new(Tile::new("A", elements)?, How::default()))
    }

    /// The link of an output.
    pub(crate) fn to_send(elements: usize) -> Result<Self> {
        Ok(Self::new(Tile::to_be_read("C", elements)?, How::default()))
    }
}
