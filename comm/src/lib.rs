//! Communicators: what a group of ranks can do together.
//!
//! One trait, [`Communicator`], for threads of one process, which may be the devices of an emulated machine, and for MPI. Data are
//! bytes; typed callers cast. Counts are in bytes and may differ by rank; both sides of a message know its length.
//!
//! Nothing here knows meshes, arrays or programs.
//!
//! | module | holds |
//! | --- | --- |
//! | `threads`, `mpi` | the communicators |
//! | `launcher` | which of them a process has |
//! | `rounds`, `in_order`, `combine`, `collective`, `alone` | collectives built from messages, and those of one rank |
//! | `flight`, `piece`, `layout`, `lane`, `progress` | non-blocking messages, and the thread that polls them |
//! | `shared` | memory of other ranks |
//! | `check`, `checking`, `call`, `words`, `received` | checks of arguments and calls, and counts of bytes received |
//! | `error`, `ranks` | errors, and ranks of unit tests |

mod alone;
mod call;
mod check;
pub mod checking;
mod collective;
mod combine;
mod error;
mod flight;
mod in_order;
mod lane;
pub mod launcher;
mod layout;
#[cfg(feature = "mpi")]
pub mod mpi;
mod piece;
mod progress;
#[cfg(test)]
#[path = "tests/ranks.rs"]
mod ranks;
mod received;
mod rounds;
mod shared;
pub mod threads;
mod words;

pub use collective::{CollectiveCall, Combining, received_in_sum};
pub use combine::{CHUNK, combine, combine_in_chunks, combine_terms};
pub use error::{CommError, Error, LaunchError, Result, named};
pub use flight::Flight;
pub use lane::Lane;
pub use layout::{Layout, LayoutLevel};
pub use piece::Piece;
pub use polyshard_layout::SumAlgorithm;
pub use progress::{Advance, PollHandle, Polled, Poller, Progress, take_back};
pub use received::Received;
pub use rounds::{Arrival, Carrier, Chain, Links, Receive, Round, Rounds, Running, connect, connect_with};
pub use shared::{Located, SharedMemory, Stranded};
pub use words::sentence;

use polyshard_layout::{DType, Name, ReduceOp};
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// A buffer's part in a broadcast.
pub enum Broadcast<'a> {
    /// This rank is the root and sends.
    Send(&'a [u8]),
    /// This rank receives from `root`.
    Receive {
        /// The rank that sends.
        root: usize,
        /// Where the data are received; as long as the root's data.
        into: &'a mut [u8],
    },
}

/// The words that a rank passes to the others in [`Communicator::exchange_headers`].
pub type Header = [u64; 8];

/// Returns the words of all ranks, in rank order, as headers with this tag; collective.
///
/// ```
/// use polyshard::runtime::comm::exchange_words;
/// use polyshard::prelude::*;
/// spmd(3, |world| {
///     let squares = exchange_words(world.comm(), "squares", [(world.rank() * world.rank()) as u64])?;
///     assert_eq!(squares, [[0], [1], [4]]);
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// As for [`Communicator::exchange_headers`].
pub fn exchange_words<const N: usize>(
    comm: &(impl Communicator + ?Sized),
    tag: impl Into<Cow<'static, str>>,
    words: [u64; N],
) -> Result<Vec<[u64; N]>> {
    const { assert!(N <= size_of::<Header>() / size_of::<u64>(), "a header has no room for that many words") };
    let mut header = Header::default();
    header[..N].copy_from_slice(&words);
    let mut headers = Vec::new();
    comm.exchange_headers(tag.into(), header, &mut headers)?;
    Ok(headers.iter().map(|header| std::array::from_fn(|nth| header[nth])).collect())
}

/// Returns the text of rank `root` on all ranks; those of the others are ignored. Collective.
///
/// # Errors
/// As for [`Communicator::broadcast`].
pub fn broadcast_text(comm: &(impl Communicator + ?Sized), root: usize, text: &str) -> Result<String> {
    let lengths = exchange_words(comm, format!("a text of rank {root}"), [text.len() as u64])?;
    if comm.rank() == root {
        comm.broadcast(Broadcast::Send(text.as_bytes()))?;
        return Ok(text.into());
    }
    let mut received = vec![0; lengths[root][0] as usize];
    comm.broadcast(Broadcast::Receive { root, into: &mut received })?;
    Ok(String::from_utf8_lossy(&received).into_owned())
}

/// Why a rank communicates: the kernel that runs, the tensor that moves, and the caller's line.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The kernel of a program; none if an array moves between two.
    pub kernel: Option<Name>,
    /// The tensor that moves.
    pub tensor: Option<Name>,
    /// The caller's line.
    pub at: &'static Location<'static>,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = self.tensor {
            write!(f, " for `{tensor}`")?;
        }
        if let Some(kernel) = self.kernel {
            write!(f, " of `{kernel}`")?;
        }
        write!(f, ", run at {}", self.at)
    }
}

/// A group of ranks, `0..size`, seen from one of them. Semantics after the MPI standard (MPI 3.1).
///
/// Collectives must be called by all ranks of the group, in the same order and with the same root, counts
/// and operation. The threads detect calls that differ; MPI does so in checked programs.
///
/// An implementation provides the methods without a body. All collectives except
/// [`all_to_all_laid_out`](Self::all_to_all_laid_out) call [`collective`](Self::collective), and no implementation
/// overrides them: so each is checked, counted and watched in one place.
pub trait Communicator {
    /// Returns this rank's number in the group.
    fn rank(&self) -> usize;

    /// Returns the number of ranks in the group.
    fn size(&self) -> usize;

    /// Returns the world rank of rank `rank` of the group, which is the number that error messages name
    /// (MPI 3.1, section 6.3.1).
    ///
    /// # Panics
    /// If the group has no such rank.
    fn world_rank(&self, rank: usize) -> usize;

    /// Sends `data` to rank `to`, another rank (MPI 3.1, section 3.2).
    ///
    /// May return before the message is received, or wait for the receiver: two ranks that both send first and
    /// receive afterwards should [`exchange`](Self::exchange) instead.
    ///
    /// # Errors
    /// If `to` is this rank or not in the group, another rank failed, or the ranks wait for each other in
    /// a circle.
    fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), to)?;
        self.exchange(&[(to, data)], &mut [])
    }

    /// Receives the next message from rank `from`, which must be as long as `into` (MPI 3.1, section 3.2).
    ///
    /// # Errors
    /// As for [`send`](Self::send), and if the lengths differ.
    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), from)?;
        self.exchange(&[], &mut [(from, into)])
    }

    /// Sends and receives all the messages given, each as (rank, data), in any order (MPI 3.1, section 3.7):
    /// the non-blocking form, complete when it returns. A rank may occur in each list more than once; such
    /// messages match in the order listed. Messages to itself are allowed.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()>;

    /// Posts all the messages given, each as (rank, piece), and returns at once (MPI 3.1, section 3.7.2): the flight owns the
    /// memory until it is done. Otherwise as [`exchange`](Self::exchange).
    ///
    /// Messages of flights between two ranks of a group match in the order posted, and match no other messages; flights may
    /// complete in any order. A [`poll`](Self::poll) or [`wait`](Self::wait) must find each complete before it is dropped:
    /// otherwise every later call of this rank is an error, and so is the end of its program.
    ///
    /// ```
    /// use polyshard::runtime::comm::Piece;
    /// use polyshard::prelude::*;
    /// use std::sync::Arc;
    /// let received = spmd(3, |world| {
    ///     let (rank, size) = (world.rank(), world.size());
    ///     let own = Arc::new(Piece::copy_of(&[rank as u8; 4], "what is sent")?);
    ///     let sends = vec![((rank + 1) % size, own)];
    ///     let receives = vec![((rank + size - 1) % size, Piece::new(4, "what is received")?)];
    ///     let mut flight = world.comm().post(sends, receives)?;
    ///     let mut computed = 0;
    ///     while world.comm().poll(&mut [&mut flight])? == 0 {
    ///         computed += 1;
    ///         std::thread::yield_now();
    ///     }
    ///     let (_, received) = flight.into_pieces();
    ///     Ok(received[0].to_vec())
    /// })?;
    /// assert_eq!(received, [[2; 4], [0; 4], [1; 4]]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a rank is not in the group, messages of this rank to itself do not pair, another rank failed, or this rank has dropped
    /// a flight.
    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight>;

    /// Lets flights of this rank, of any of its groups, make progress, and returns how many of them are done
    /// (MPI 3.1, section 3.7.5). Never waits or allocates.
    ///
    /// A rank that polls counts as computing: others wait for it, and the deadlock check never reports it.
    ///
    /// # Errors
    /// If a message is not as long as the piece for it, another rank failed, or this rank has dropped a flight.
    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize>;

    /// Waits until all these flights are done. Like a rank that [receives](Self::receive), one that waits here
    /// may be reported as part of a deadlock.
    ///
    /// # Errors
    /// As for [`poll`](Self::poll), and if the ranks wait for each other.
    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        for flight in &mut *flights {
            self.poll(&mut [flight])?;
            flight.wait()?;
        }
        self.poll(flights).map(drop)
    }

    /// Takes part in a collective. All collectives below except [`all_to_all_laid_out`](Self::all_to_all_laid_out)
    /// call this method, so that a wrapper has one method to wrap.
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn collective(&self, collective: CollectiveCall<'_>) -> Result<()>;

    /// Gives every rank the root's data (MPI 3.1, section 5.4).
    ///
    /// # Errors
    /// If the ranks' roots, lengths or operations differ, or another rank failed.
    fn broadcast(&self, part: Broadcast<'_>) -> Result<()> {
        self.collective(CollectiveCall::Broadcast(part))
    }

    /// Gives every rank the data of all, `counts[r]` bytes of rank `r`, in rank order (MPI 3.1, section 5.7).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn all_gather(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        self.collective(CollectiveCall::AllGather { send, into, counts })
    }

    /// Sends `send_counts[r]` bytes to each rank `r` and receives `receive_counts[r]` from it, packed in
    /// rank order (MPI 3.1, section 5.8).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn all_to_all(&self, send: &[u8], send_counts: &[usize], into: &mut [u8], receive_counts: &[usize]) -> Result<()> {
        self.collective(CollectiveCall::AllToAll { send, send_counts, into, receive_counts })
    }

    /// As [`all_to_all`](Self::all_to_all), with bytes scattered in `data` and `into`: the layouts of the bytes to send to each rank
    /// and to receive from it, if any. Returns false on all ranks, having done nothing, where the library cannot gather the bytes
    /// from `data` and scatter them into `into` itself (MPI 3.1, sections 4.1 and 5.8).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    ///
    /// # Panics
    /// If a layout exceeds its buffer: a bug in polyshard.
    fn all_to_all_laid_out(
        &self,
        sends: &[Option<Layout>],
        data: &[u8],
        receives: &[Option<Layout>],
        into: &mut [u8],
    ) -> Result<bool> {
        let _ = (sends, data, receives, into);
        Ok(false)
    }

    /// Combines the ranks' data element by element; the root's `data` becomes the result
    /// (MPI 3.1, section 5.9). Elsewhere `data` is unspecified afterwards.
    ///
    /// `data` are whole, aligned elements of the type in `combining`. Results are exact for integers and for maxima and minima.
    /// If the terms may be combined in any order, MPI may combine floats in an order other than rank order; the threads do not.
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast), and if `data` are not whole, aligned elements.
    fn reduce(&self, root: usize, data: &mut [u8], combining: Combining) -> Result<()> {
        self.collective(CollectiveCall::Reduce { root, data, combining })
    }

    /// As [`reduce`](Self::reduce), with the result on all ranks (MPI 3.1, section 5.9.6).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn all_reduce(&self, data: &mut [u8], combining: Combining) -> Result<()> {
        self.collective(CollectiveCall::AllReduce { data, combining })
    }

    /// As [`reduce`](Self::reduce), but rank `r` receives `counts[r]` bytes of the result, in rank order
    /// (MPI 3.1, section 5.10). `into` has `counts[rank]` bytes; `send` has their sum.
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn reduce_scatter(&self, send: &[u8], into: &mut [u8], counts: &[usize], combining: Combining) -> Result<()> {
        self.collective(CollectiveCall::ReduceScatter { send, into, counts, combining })
    }

    /// Waits until all ranks have called it (MPI 3.1, section 5.3).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn barrier(&self) -> Result<()> {
        self.collective(CollectiveCall::Barrier)
    }

    /// Gives every rank the headers of all, in rank order, in `into`, whose memory it reuses (MPI 3.1, section 5.7).
    ///
    /// Ranks agree by headers on how they are going to communicate: headers are not data, and
    /// [`received`](Self::received) does not count them. `tag` names their subject, and is the same on all ranks.
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast), and where calls are compared, if ranks differ in `tag`.
    fn exchange_headers(&self, tag: Cow<'static, str>, header: Header, into: &mut Vec<Header>) -> Result<()> {
        self.collective(CollectiveCall::Headers { tag, header, into })
    }

    /// Divides the group: ranks of one `color` form a new group, in the order of (`key`, rank)
    /// (MPI 3.1, section 6.4.2). All ranks of the group must call it.
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>>;

    /// Returns the group of this rank alone, without communication (MPI 3.1, section 6.4.1).
    ///
    /// # Errors
    /// If this rank has dropped a flight, or the MPI library reports an error.
    fn alone(&self) -> Result<Box<dyn Communicator>>;

    /// Returns a group of the same ranks, in the same order, for flights that match no messages of other groups (MPI 3.1, section 6.4.2).
    /// This rank's own thread posts and polls them, or its [progress thread](Progress::Thread) while the rank computes. All ranks of
    /// the group must call it.
    ///
    /// ```
    /// use polyshard::runtime::comm::{Communicator, Lane};
    /// use polyshard::prelude::*;
    /// spmd(3, |world| {
    ///     let lane: Lane = world.comm().lane()?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn lane(&self) -> Result<Lane>;

    /// Returns the count of this rank's receives from other ranks, in this group and in all that share its origin.
    ///
    /// It counts the bytes that others contribute to this rank's result, however the library moves them: the
    /// whole buffer for a broadcast, the others' parts for all-gather and all-to-all, and for reductions one
    /// contribution of the size of this rank's result from each other rank.
    fn received(&self) -> Received;

    /// Returns the bytes that this rank has [received](Self::received), by messages and in place.
    fn bytes_received(&self) -> u64 {
        self.received().bytes()
    }

    /// Counts bytes that this rank has read in the memory of other ranks, so that [`bytes_received`](Self::bytes_received)
    /// is the same by either route.
    fn count_in_place(&self, bytes: usize);

    /// Returns the memory that ranks of the group share. All ranks of the group must call it.
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>>;

    /// Records the purpose of this rank's next calls, in any group, so that a rank that waits long can report it.
    fn note(&self, work: Option<Work>) {
        let _ = work;
    }

    /// Returns whether ranks whose calls differ get an error, as threads always do.
    fn is_checked(&self) -> bool {
        false
    }

    /// Ends the group because of `message` (MPI 3.1, section 8.7): on threads the others get
    /// [`Error::Aborted`], on MPI all processes end.
    fn abort(&self, message: &str);
}

/// Returns where each part starts if parts of these lengths are packed.
fn starts(counts: &[usize]) -> impl Iterator<Item = usize> + '_ {
    counts.iter().scan(0, |next, count| {
        let start = *next;
        *next += count;
        Some(start)
    })
}
