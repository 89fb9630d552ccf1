//! The messages in flight of a link, kept apart from it so that the rank or its progress thread can drive them while the leaf reads and
//! writes the tile.
//!
//! ```text
//! begin       adds messages that have been posted
//! poll        drives all of them, between slices of a leaf or on the progress thread
//! finish      waits for the oldest, and returns its data
//! ```
//!
//! It holds the messages, their memory and their communicators; the tile decides what to do with the data.

use crate::comm::{Carrier, Communicator, Error, Flight, Lane, Piece, Result, Running, combine_terms};
use crate::{DType, ReduceOp, World};
use polyshard_comm::{Advance, PollHandle, take_back};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A transfer that has been posted.
pub(crate) enum Posted {
    /// The messages, unless nothing is sent or received.
    Messages(Option<Flight>),
    /// Data forwarded from rank to rank, on the lane of this number.
    Forwarded(Box<Running>, usize),
    /// Sums of which each member of a group computes a piece, on the first lane.
    Sums(Box<Sums>),
}

/// The results of a transfer.
#[derive(Default)]
pub(crate) struct Arrived {
    /// The messages, in the order posted.
    pub(crate) received: Vec<Piece>,
    /// The sums of this rank's piece, if it has summed one up.
    pub(super) sums: Option<Arc<Piece>>,
}

/// The transfers in flight, shared by the tile and the progress thread: only one of them uses it at any moment.
#[derive(Default)]
pub(crate) struct Flights(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    /// In the order in which they began.
    begun: VecDeque<Posted>,
    /// The lanes that forwarding transfers use in turn, and the next one to use.
    lanes: Vec<Lane>,
    next: usize,
    /// Why a transfer failed.
    error: Option<Error>,
}

impl Flights {
    /// Returns the transfers of a tile with these lanes.
    pub(super) fn by(lanes: Vec<Lane>) -> Self {
        Self(Arc::new(Mutex::new(Queue { lanes, ..Queue::default() })))
    }

    /// Locks the queue for this rank, which first takes it back from the progress thread.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        take_back();
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to forward data from rank to rank, on the next lane.
    pub(super) fn passing(&self, running: Running) -> Result<Posted> {
        let mut queue = self.queue();
        let lane = queue.next;
        queue.next = (lane + 1) % queue.lanes.len();
        let mut running = Box::new(running);
        running.poll(queue.lanes[lane].carrier())?;
        Ok(Posted::Forwarded(running, lane))
    }

    pub(crate) fn begin(&self, begun: Posted) {
        self.queue().begun.push_back(begun);
    }

    /// Forgets all transfers: dropping one before it is done makes every later call of this rank an error.
    pub(crate) fn clear(&self) {
        let mut queue = self.queue();
        queue.begun.clear();
        queue.next = 0;
        queue.error = None;
    }

    /// Polls all transfers, without waiting; returns whether some need to be polled again while a leaf computes.
    pub(crate) fn poll(&self, world: &World) -> Result<bool> {
        let mut queue = self.queue();
        if queue.begun.is_empty() {
            return Ok(false);
        }
        // If another rank failed, all polls end here.
        world.comm().poll(&mut [])?;
        Ok(queue.advance()? && !world.has_progress_thread())
    }

    /// Waits for the transfer that began first.
    pub(crate) fn finish(&self, comm: &dyn Communicator) -> Result<Arrived> {
        let mut queue = self.queue();
        let Queue { begun, lanes, next, error } = &mut *queue;
        if let Some(error) = error {
            return Err(error.clone());
        }
        let first = begun.pop_front().expect("what is waited for has begun; this is a bug in polyshard");
        if begun.is_empty() {
            // The next run begins with the same lane on all ranks, also if this one fails on some.
            *next = 0;
        }
        match first {
            Posted::Messages(None) => Ok(Arrived::default()),
            Posted::Messages(Some(mut flight)) => {
                comm.wait(&mut [&mut flight])?;
                Ok(Arrived { received: flight.into_pieces().1, sums: None })
            }
            Posted::Forwarded(running, lane) => {
                Ok(Arrived { received: vec![running.wait(lanes[lane].carrier())?], sums: None })
            }
            Posted::Sums(sums) => sums.finish(lanes[0].carrier()),
        }
    }

    /// Returns the handle that the progress thread polls.
    pub(crate) fn handle(&self) -> PollHandle {
        Arc::clone(&self.0) as _
    }
}

impl Queue {
    fn go_on(&mut self) -> Result<bool> {
        let Self { begun, lanes, .. } = self;
        let (mut is_under_way, mut is_next) = (false, true);
        for one in begun {
            is_under_way |= !match one {
                Posted::Messages(None) => true,
                Posted::Messages(Some(flight)) => flight.advance()?,
                Posted::Forwarded(running, lane) => running.poll(lanes[*lane].carrier())?,
                Posted::Sums(sums) => sums.advance(lanes[0].carrier(), &mut is_next)?,
            };
        }
        Ok(is_under_way)
    }
}

impl Advance for Queue {
    fn advance(&mut self) -> Result<bool> {
        if self.error.is_none() {
            match self.go_on() {
                Ok(is_under_way) => return Ok(is_under_way),
                // Whichever thread finds the error, the rank's own thread reports it.
                Err(error) => self.error = Some(error),
            }
        }
        self.error.clone().map_or(Ok(false), Err)
    }

    fn is_idle(&self) -> bool {
        self.begun.is_empty()
    }
}

/// Sums of which each member of a group computes a piece, which it then sends to the members that need all of them.
///
/// ```text
/// begin     each member sends every other one its terms of that member's piece
/// then      each adds up its piece, and sends the sums to the root, or to all
/// ```
pub(crate) struct Sums {
    /// The terms of this member's piece in flight, and then the sums of the others.
    pub(super) flight: Option<Flight>,
    /// This member's own terms of its piece, and then its sums.
    pub(super) own: Arc<Piece>,
    pub(super) are_taken: bool,
    pub(super) me: usize,
    /// The bytes of each member's piece.
    pub(super) lengths: SmallVec<[usize; 8]>,
    /// The member that gets the sums, unless all do.
    pub(super) root: Option<usize>,
    pub(super) dtype: DType,
    pub(super) op: ReduceOp,
}

impl Sums {
    /// Polls without waiting; returns whether all messages have arrived. Sums are sent in the order in which they began: `is_next` is
    /// whether all earlier ones have been.
    fn advance(&mut self, lane: &dyn Carrier, is_next: &mut bool) -> Result<bool> {
        if !self.are_taken && *is_next && self.is_here(lane)? {
            self.hand_on(lane)?;
        }
        *is_next &= self.are_taken;
        Ok(self.is_here(lane)? && self.are_taken)
    }

    fn is_here(&mut self, lane: &dyn Carrier) -> Result<bool> {
        match self.flight.as_mut().filter(|flight| !flight.is_done()) {
            None => Ok(true),
            Some(flight) => Ok(lane.poll(&mut [flight])? > 0),
        }
    }

    fn wait(&mut self, lane: &dyn Carrier) -> Result<()> {
        self.flight.as_mut().map_or(Ok(()), |flight| lane.wait(&mut [flight]))
    }

    fn received(&mut self) -> Vec<Piece> {
        self.flight.take().map(|flight| flight.into_pieces().1).unwrap_or_default()
    }

    fn finish(mut self, lane: &dyn Carrier) -> Result<Arrived> {
        self.wait(lane)?;
        if !self.are_taken {
            self.hand_on(lane)?;
            self.wait(lane)?;
        }
        Ok(Arrived { received: self.received(), sums: Some(self.own) })
    }

    /// Adds up this member's piece, all of whose terms have arrived, in the order of the members, and sends the sums to the members that
    /// get them.
    fn hand_on(&mut self, lane: &dyn Carrier) -> Result<()> {
        let mut others = self.received();
        let own = Arc::get_mut(&mut self.own).expect("nobody else has terms of this rank; this is a bug in polyshard");
        // The sums replace the terms of the first member. No member sends terms of an empty piece.
        let before = self.me.min(others.len());
        if let [first, ..] = &mut others[..before] {
            std::mem::swap(own, first);
            others[..before].rotate_left(1);
        }
        combine_terms(self.dtype, self.op, own, others.iter().map(|term| &**term));
        let gets_sums = |member: usize| self.root.is_none_or(|root| root == member);
        let others = || self.lengths.iter().copied().enumerate().filter(|(member, _)| *member != self.me);
        let sends = others().filter(|(to, _)| gets_sums(*to) && !self.own.is_empty());
        let sends = sends.map(|(to, _)| (to, Arc::clone(&self.own))).collect();
        let receives = others().filter(|(_, bytes)| gets_sums(self.me) && *bytes > 0);
        let receives = receives.map(|(from, bytes)| Ok((from, Piece::new(bytes, "a message of a tile")?)));
        self.flight = flight(lane, sends, receives.collect::<Result<_>>()?)?;
        self.are_taken = true;
        Ok(())
    }
}

/// Posts messages, if there are any.
pub(super) fn flight(
    carrier: &(impl Carrier + ?Sized),
    sends: Vec<(usize, Arc<Piece>)>,
    receives: Vec<(usize, Piece)>,
) -> Result<Option<Flight>> {
    if sends.is_empty() && receives.is_empty() { Ok(None) } else { carrier.post(sends, receives).map(Some) }
}
