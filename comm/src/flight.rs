//! Non-blocking messages posted together by one rank, with the memory that they own until they are done.
//!
//! ```text
//! post    the flight owns the pieces, no other code reaches the pieces it receives into
//! poll    checks whether all its messages are sent and received; allocates nothing
//! done    returns the pieces
//! ```
//!
//! A flight that is dropped before it is done does not free memory that another rank may be using: the memory stays allocated
//! as long as that is possible. But its messages can no longer be completed, so every later call of its rank is an error.

use super::received::Counter;
use super::{Piece, check};
use crate::{CommError, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The communicator's part of a flight: its messages to and from other ranks. If dropped before they are done, it keeps their
/// memory as long as another rank may be using it.
pub(super) trait Transfer: Send {
    /// Returns whether all messages are done; never waits or allocates.
    fn poll(&mut self) -> Result<bool>;

    /// Waits until [`poll`](Self::poll) would return true or an error.
    fn wait(&mut self) -> Result<()>;

    /// Returns the received pieces, in the order posted; all messages are done.
    fn take(&mut self) -> Vec<Piece>;
}

/// Messages in flight, with their memory: no other code reaches it until they are done.
///
/// [`Communicator::post`](super::Communicator::post) returns it, and [`poll`](super::Communicator::poll) or
/// [`wait`](super::Communicator::wait) completes it.
#[must_use = "a flight that is dropped before it is done makes every later call of its rank an error"]
pub struct Flight {
    sends: Vec<(usize, Arc<Piece>)>,
    /// The sender of each message, and its bytes.
    receives: Vec<(usize, usize)>,
    /// Messages from this rank to itself: their indices among the receives, ascending.
    own: Vec<(usize, Piece)>,
    transfer: Box<dyn Transfer>,
    rank: usize,
    is_done: bool,
    dropped: Arc<Dropped>,
    /// Its messages, where a watchdog watches waits.
    #[cfg(feature = "mpi")]
    pub(super) noted: Vec<Noted>,
}

/// One message of a flight, from which the watchdog decides whether it can arrive.
#[cfg(feature = "mpi")]
pub(super) struct Noted {
    /// The group that it was posted in.
    pub(super) group: u64,
    /// The other rank, a world rank.
    pub(super) peer: usize,
    /// Whether it is sent to the other rank, or received from it.
    pub(super) is_sent: bool,
    pub(super) bytes: usize,
    /// How many messages in this direction this rank has posted with that rank in the group, this one included.
    pub(super) number: u64,
}

impl Flight {
    /// Returns whether a poll has found it done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the sent pieces and the received pieces, each in the order posted.
    ///
    /// # Panics
    /// If no poll has found it done.
    #[track_caller]
    #[must_use]
    pub fn into_pieces(mut self) -> (Vec<Arc<Piece>>, Vec<Piece>) {
        assert!(self.is_done, "a flight gives its pieces back when a poll has found it done");
        let mut received = self.transfer.take();
        for (place, piece) in self.own.drain(..) {
            received.insert(place, piece);
        }
        let sent = self.sends.drain(..).map(|(_, piece)| piece).collect();
        (sent, received)
    }

    /// Checks whether it is done, and counts its received bytes when it becomes done.
    fn poll(&mut self, received: &Counter) -> Result<bool> {
        if !self.is_done && self.transfer.poll()? {
            self.is_done = true;
            let others = self.receives.iter().filter(|receive| receive.0 != self.rank);
            others.for_each(|receive| received.message(receive.1));
        }
        Ok(self.is_done)
    }

    /// Lets its messages progress, on any thread of its rank, and returns whether all are done: the next poll counts them.
    ///
    /// # Errors
    /// As for [`Communicator::poll`](super::Communicator::poll).
    #[doc(hidden)]
    pub fn advance(&mut self) -> Result<bool> {
        Ok(self.is_done || self.transfer.poll()?)
    }

    /// Waits until a poll finds it done or an error.
    pub(super) fn wait(&mut self) -> Result<()> {
        if self.is_done { Ok(()) } else { self.transfer.wait() }
    }

    /// The peer of each message, a rank of the group, whether it is sent to the peer, and the bytes.
    #[cfg(feature = "mpi")]
    pub(super) fn messages(&self) -> impl Iterator<Item = (usize, bool, usize)> + '_ {
        let receives = self.receives.iter().map(|&(from, bytes)| (from, false, bytes));
        receives.chain(self.sends.iter().map(|(to, piece)| (*to, true, piece.len())))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.is_done {
            self.dropped.0.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

/// Whether a rank has dropped a flight that was not done; shared by all its groups and flights.
#[derive(Debug, Default)]
pub(super) struct Dropped(AtomicBool);

impl Dropped {
    /// Refuses any further call of `rank`, a world rank, once it has dropped a flight.
    pub(super) fn check(&self, rank: impl FnOnce() -> usize) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(CommError::DroppedFlight { rank: rank() }.into()) } else { Ok(()) }
    }
}

/// Posts messages of `rank`, in a group of `size`: messages to itself are delivered here, and `start` gets those to and from other ranks.
pub(super) fn post<T: Transfer + 'static>(
    [size, rank]: [usize; 2],
    dropped: &Arc<Dropped>,
    sends: Vec<(usize, Arc<Piece>)>,
    mut receives: Vec<(usize, Piece)>,
    start: impl FnOnce(Vec<(usize, Arc<Piece>)>, Vec<(usize, Piece)>) -> Result<T>,
) -> Result<Flight> {
    let sent: Vec<(usize, &[u8])> = sends.iter().map(|(to, piece)| (*to, &***piece)).collect();
    let mut wanted: Vec<(usize, &mut [u8])> = receives.iter_mut().map(|(from, piece)| (*from, &mut **piece)).collect();
    check::exchange(size, rank, &sent, &mut wanted)?;
    let lengths = receives.iter().map(|(from, piece)| (*from, piece.len())).collect();
    let (own, others): (Vec<_>, Vec<_>) = receives.into_iter().enumerate().partition(|(_, receive)| receive.0 == rank);
    let leaving = sends.iter().filter(|send| send.0 != rank).cloned().collect();
    let transfer = Box::new(start(leaving, others.into_iter().map(|(_, receive)| receive).collect())?);
    Ok(Flight {
        sends,
        receives: lengths,
        own: own.into_iter().map(|(place, (_, piece))| (place, piece)).collect(),
        transfer,
        rank,
        is_done: false,
        dropped: Arc::clone(dropped),
        #[cfg(feature = "mpi")]
        noted: Vec::new(),
    })
}

/// Polls flights, counts the received bytes of those that become done, and returns how many are done.
pub(super) fn poll(flights: &mut [&mut Flight], received: &Counter) -> Result<usize> {
    flights.iter_mut().try_fold(0, |done, flight| Ok(done + usize::from(flight.poll(received)?)))
}
