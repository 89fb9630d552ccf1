//! The state machine that runs rounds over non-blocking messages.
//!
//! It posts messages in the order of the rounds: a send when its segment is ready, and some receives in advance, into the segment
//! itself or, where segments are combined, into separate memory. So a segment is forwarded as soon as it has arrived, whatever
//! else is in flight; memory is allocated for a message only when it is posted, and polls between arrivals allocate nothing.

use super::{Arrival, Receive, Round, Rounds};
use crate::{Combining, CommError, Communicator, Flight, Piece, Result, combine};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// How many receives are posted in advance, so that messages that arrive while a rank computes have a buffer.
const AHEAD: usize = 4;

/// Something that posts non-blocking messages, such as every communicator.
pub trait Carrier {
    /// As [`Communicator::post`].
    ///
    /// # Errors
    /// As for [`Communicator::post`].
    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight>;

    /// As [`Communicator::poll`].
    ///
    /// # Errors
    /// As for [`Communicator::poll`].
    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize>;

    /// As [`Communicator::wait`].
    ///
    /// # Errors
    /// As for [`Communicator::wait`].
    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()>;
}

impl<C: Communicator + ?Sized> Carrier for C {
    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        Communicator::post(self, sends, receives)
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        Communicator::poll(self, flights)
    }

    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        Communicator::wait(self, flights)
    }
}

/// Rounds in progress, with their data.
///
/// All ranks of a group start the rounds of a collective in the same order, and poll or wait until each is done.
#[must_use = "rounds that are dropped before they are done make every later call of their rank an error"]
pub struct Running {
    segments: Vec<Segment>,
    combining: Option<Combining>,
    /// Steps that have not been posted, in order.
    sends: VecDeque<Step>,
    receives: VecDeque<(Step, Arrival)>,
    /// Steps in flight, the oldest first.
    sent: VecDeque<(Step, Flight)>,
    received: VecDeque<(Step, Arrival, Flight)>,
    /// Receive buffers for reuse, for segments that are combined.
    spare: Vec<Piece>,
}

/// A segment, and how often it has been received and sent.
struct Segment {
    /// None while a receive writes into it.
    piece: Option<Arc<Piece>>,
    counts: [usize; 2],
}

impl Segment {
    /// Returns whether it has been received and sent this often.
    fn is_at(&self, counts: [usize; 2]) -> bool {
        self.counts == counts
    }

    /// Returns whether it can be sent, having been received this often before: other sends of it may be in flight.
    fn can_leave(&self, counts: [usize; 2]) -> bool {
        self.counts[0] == counts[0] && self.piece.is_some()
    }
}

/// One send or receive.
struct Step {
    peer: usize,
    /// The segments, with how often each is received and sent before this step.
    segments: Vec<(usize, [usize; 2])>,
}

impl Rounds {
    /// Begins the collective with this rank's data; no message is posted before the first poll. Rounds that combine do so by
    /// the operation of `combining`, whatever order it asks for.
    ///
    /// # Panics
    /// If the data are not as long as the segments, or rounds combine and `combining` is missing.
    #[track_caller]
    pub fn start(self, data: Piece, combining: Option<Combining>) -> Running {
        let Self { bounds, rounds } = self;
        assert_eq!(data.len(), *bounds.last().expect("bounds have an end"), "the segments make up the data");
        let mut segments = Vec::with_capacity(bounds.len() - 1);
        let mut rest = data;
        for pair in bounds.windows(2) {
            let tail = rest.split_off(pair[1] - pair[0]);
            segments.push(Segment { piece: Some(Arc::new(std::mem::replace(&mut rest, tail))), counts: [0; 2] });
        }
        let (mut sends, mut receives) = (VecDeque::new(), VecDeque::new());
        let mut before = vec![[0; 2]; segments.len()];
        for Round { send, receive } in rounds {
            let mut step = |peer, segments: Range<usize>, what: usize| {
                let step = Step { peer, segments: segments.clone().map(|nth| (nth, before[nth])).collect() };
                before[segments].iter_mut().for_each(|counts| counts[what] += 1);
                step
            };
            sends.extend(send.map(|(to, segments)| step(to, segments, 1)));
            if let Some(Receive { from, segments, arrival }) = receive {
                let knows = arrival == Arrival::Replace || combining.is_some();
                assert!(knows, "rounds that combine need to know how");
                receives.push_back((step(from, segments, 0), arrival));
            }
        }
        let (sent, received) = (VecDeque::new(), VecDeque::new());
        Running { segments, combining, sends, receives, sent, received, spare: Vec::new() }
    }
}

impl Running {
    /// Makes as much progress as possible without waiting; returns whether all rounds are done.
    ///
    /// # Errors
    /// As [`Communicator::poll`]; and if a segment to combine is not whole elements.
    pub fn poll(&mut self, comm: &(impl Carrier + ?Sized)) -> Result<bool> {
        loop {
            let posted = self.post(comm)?;
            let ended = self.end(comm)?;
            if !posted && !ended {
                return Ok(self.is_done());
            }
        }
    }

    /// Runs the rounds to completion, and returns the data.
    ///
    /// # Errors
    /// As [`Communicator::wait`] and [`poll`](Self::poll).
    ///
    /// # Panics
    /// If the state machine has lost a segment: a bug in polyshard.
    pub fn wait(mut self, comm: &(impl Carrier + ?Sized)) -> Result<Piece> {
        while !self.poll(comm)? {
            // The oldest is first in the order that all ranks follow, so it does not depend on any step that waits here.
            match (self.received.front_mut(), self.sent.front_mut()) {
                (Some((.., flight)), _) | (None, Some((_, flight))) => comm.wait(&mut [flight])?,
                (None, None) => panic!("rounds wait for nothing and are not done: this is a bug in polyshard"),
            }
        }
        let pieces = self.segments.into_iter().map(|segment| {
            let piece = segment.piece.and_then(Arc::into_inner);
            piece.expect("nobody else has a segment of rounds that are done: this is a bug in polyshard")
        });
        match pieces.reduce(Piece::join) {
            Some(data) => Ok(data),
            None => Piece::new(0, "no segments"),
        }
    }

    fn is_done(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty() && self.sent.is_empty() && self.received.is_empty()
    }

    /// Posts the steps that are ready; returns whether there were any.
    fn post(&mut self, comm: &(impl Carrier + ?Sized)) -> Result<bool> {
        let before = self.sends.len() + self.receives.len();
        let can_leave =
            |segments: &[Segment], step: &Step| step.segments.iter().all(|it| segments[it.0].can_leave(it.1));
        while self.sends.front().is_some_and(|step| can_leave(&self.segments, step))
            && let Some(step) = self.sends.pop_front()
        {
            let pieces = step.segments.iter().filter_map(|(nth, _)| self.segments[*nth].piece.clone());
            let flight = comm.post(pieces.map(|piece| (step.peer, piece)).collect(), Vec::new())?;
            self.sent.push_back((step, flight));
        }
        let is_next = |segments: &[Segment], step: &Step| step.segments.iter().all(|it| segments[it.0].is_at(it.1));
        while self.received.len() < AHEAD
            && self.receives.front().is_some_and(|(step, _)| is_next(&self.segments, step))
            && let Some((step, arrival)) = self.receives.pop_front()
        {
            let pieces = step.segments.iter().map(|(nth, _)| match arrival {
                Arrival::Replace => {
                    let piece = self.segments[*nth].piece.take().and_then(Arc::into_inner);
                    Ok(piece.expect("a segment that is not in flight has one owner: this is a bug in polyshard"))
                }
                Arrival::Combine => {
                    let bytes = self.segments[*nth].piece.as_ref().map_or(0, |piece| piece.len());
                    match self.spare.iter().position(|spare| spare.len() == bytes) {
                        Some(place) => Ok(self.spare.swap_remove(place)),
                        None => Piece::new(bytes, "a segment that is combined"),
                    }
                }
            });
            let pieces = pieces.map(|piece| Ok((step.peer, piece?))).collect::<Result<_>>()?;
            let flight = comm.post(Vec::new(), pieces)?;
            self.received.push_back((step, arrival, flight));
        }
        Ok(self.sends.len() + self.receives.len() < before)
    }

    /// Completes the steps that are done; returns whether there were any.
    fn end(&mut self, comm: &(impl Carrier + ?Sized)) -> Result<bool> {
        let before = self.sent.len() + self.received.len();
        let mut place = 0;
        while let Some((_, flight)) = self.sent.get_mut(place) {
            if comm.poll(&mut [flight])? == 0 {
                place += 1;
            } else if let Some((step, flight)) = self.sent.remove(place) {
                drop(flight);
                step.segments.iter().for_each(|(nth, _)| self.segments[*nth].counts[1] += 1);
            }
        }
        let mut place = 0;
        while let Some((.., flight)) = self.received.get_mut(place) {
            if comm.poll(&mut [flight])? == 0 {
                place += 1;
            } else if let Some((step, arrival, flight)) = self.received.remove(place) {
                let (_, pieces) = flight.into_pieces();
                for ((nth, _), piece) in step.segments.iter().zip(pieces) {
                    self.arrive(*nth, arrival, piece)?;
                }
            }
        }
        Ok(self.sent.len() + self.received.len() < before)
    }

    /// Stores a received segment or combines it with the rank's own.
    fn arrive(&mut self, nth: usize, arrival: Arrival, piece: Piece) -> Result<()> {
        let segment = &mut self.segments[nth];
        segment.counts[0] += 1;
        match (arrival, self.combining) {
            (Arrival::Combine, Some(Combining { dtype, op, .. })) => {
                let own = segment.piece.as_mut().and_then(Arc::get_mut);
                let own = own.expect("what is combined has one owner: this is a bug in polyshard");
                if !own.len().is_multiple_of(dtype.size()) {
                    return Err(CommError::PartialElement { bytes: own.len(), dtype }.into());
                }
                combine(dtype, op, own, &piece);
                self.spare.push(piece);
            }
            _ => segment.piece = Some(Arc::new(piece)),
        }
        Ok(())
    }
}
