//! Messages that do not wait: what one rank has posted, with the memory that it owns until it is done.
//!
//! ```text
//! post    the flight owns the pieces, nobody reaches what it receives into
//! poll    looks whether all its messages have come and gone; takes no memory
//! done    gives the pieces back
//! ```
//!
//! A flight that is dropped before it is done withdraws nothing that another rank may be using: its memory is kept as long as
//! that may be. But its messages have no owner then, so every later call of its rank is an error.

use super::received::Counter;
use super::{Piece, check};
use crate::{CommError, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a communicator keeps of the messages of a flight to and from other ranks. If it is dropped before they are done, it keeps
/// their memory as long as another rank may be using it.
pub(super) trait Transfer: Send {
    /// Returns whether all messages are done; never waits, and takes no memory.
    ///
    /// # Errors
    /// If a message is not as long as what it is received into, or a rank failed.
    fn poll(&mut self) -> Result<bool>;

    /// Waits until [`poll`](Self::poll) would return true or an error.
    ///
    /// # Errors
    /// If a rank failed, or the ranks wait for each other.
    fn wait(&mut self) -> Result<()>;

    /// Calls `read` with the place of each message that has been received and its bytes, when all is done.
    fn read(&self, read: &mut dyn FnMut(usize, &[u8]));

    /// Returns what has been received, in the order posted, when all is done.
    fn take(&mut self) -> Vec<Piece>;
}

/// Messages on their way, with their memory: nobody else reaches it until they are done.
///
/// [`Communicator::post`](super::Communicator::post) makes it, and [`poll`](super::Communicator::poll) or
/// [`wait`](super::Communicator::wait) finds out when it is done.
#[must_use = "a flight that is dropped before it is done makes every later call of its rank an error"]
pub struct Flight {
    sends: Vec<(usize, Arc<Piece>)>,
    /// The rank that each message comes from, and its bytes.
    receives: Vec<(usize, usize)>,
    /// What this rank has received from itself: places among the receives, ascending.
    own: Vec<(usize, Piece)>,
    transfer: Box<dyn Transfer>,
    rank: usize,
    is_done: bool,
    dropped: Arc<Dropped>,
    /// Its messages, where ranks that wait are watched.
    #[cfg(feature = "mpi")]
    pub(super) noted: Vec<Noted>,
}

/// One message of a flight, as the watchdog needs it to decide whether it can come.
#[cfg(feature = "mpi")]
pub(super) struct Noted {
    /// The group that it is posted in.
    pub(super) group: u64,
    /// The other rank, in the world.
    pub(super) peer: usize,
    /// Whether it is sent to the other rank, or received from it.
    pub(super) is_sent: bool,
    pub(super) bytes: usize,
    /// How many messages this rank has posted with it in the group, to that rank or from it, this one included.
    pub(super) number: u64,
}

impl Flight {
    /// Returns whether a poll has found it done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns what was sent and what was received, each in the order posted.
    ///
    /// # Panics
    /// If no poll has found it done.
    #[track_caller]
    #[must_use]
    pub fn into_pieces(mut self) -> (Vec<Arc<Piece>>, Vec<Piece>) {
        assert!(self.is_done, "a flight gives its pieces back when a poll has found it done");
        let received = self.take();
        let sent = self.sends.drain(..).map(|(_, piece)| piece).collect();
        (sent, received)
    }

    /// Returns what was received, in the order posted; the flight is done.
    pub(super) fn take(&mut self) -> Vec<Piece> {
        let mut received = self.transfer.take();
        for (place, piece) in self.own.drain(..) {
            received.insert(place, piece);
        }
        received
    }

    /// Calls `read` with the place of each message that was received from another rank, among these, and its bytes; the flight is
    /// done.
    pub(super) fn read(&self, read: &mut dyn FnMut(usize, &[u8])) {
        self.transfer.read(read);
    }

    /// Looks whether it is done, and counts what it has received if it has just become so.
    pub(super) fn poll(&mut self, received: Option<&Counter>) -> Result<bool> {
        if !self.is_done && self.transfer.poll()? {
            self.is_done = true;
            let others = self.receives.iter().filter(|receive| receive.0 != self.rank);
            others.for_each(|receive| received.into_iter().for_each(|received| received.message(receive.1)));
        }
        Ok(self.is_done)
    }

    /// Lets its messages go on, on any thread of its rank, and returns whether all are done: the next poll counts them.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        Ok(self.is_done || self.transfer.poll()?)
    }

    /// Waits until a poll finds it done or an error.
    pub(super) fn wait(&mut self) -> Result<()> {
        if self.is_done { Ok(()) } else { self.transfer.wait() }
    }

    /// The other rank of each message, in the group, whether it is sent there, and the bytes.
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
    /// Refuses any further call of `rank`, a number in the world, once it has dropped a flight.
    pub(super) fn check(&self, rank: impl FnOnce() -> usize) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(CommError::DroppedFlight { rank: rank() }.into()) } else { Ok(()) }
    }
}

/// Posts messages of `rank`, in a group of `size`: those to itself are delivered here, and `start` gets those to and from other
/// ranks.
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

/// Polls flights, and counts what those have received that have become done, if it is to be counted; returns how many are done.
pub(super) fn poll(flights: &mut [&mut Flight], received: Option<&Counter>) -> Result<usize> {
    flights.iter_mut().try_fold(0, |done, flight| Ok(done + usize::from(flight.poll(received)?)))
}
