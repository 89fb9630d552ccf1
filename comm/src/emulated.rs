//! The communicator of an emulated machine: threads whose messages take the machine's time.
//!
//! Ranks are the devices of a [`Machine`](polyshard_machine::Machine). Every message reserves the ports that it would
//! pass there, on a clock that all ranks share, and its receiver sleeps until it would have arrived. Collectives are
//! carried out for real, as the [rounds](super::Rounds) of rings and chains, so their cost follows from the messages
//! alone: concurrent groups contend for the ports that they share, and no code asks the planner how long a collective
//! should take. That makes measurements here a test of the planner's model.
//!
//! | file | holds |
//! | --- | --- |
//! | `network` | ports, and when a message arrives |
//! | `wire` | real messages, each with its time |
//!
//! As on MPI, ranks may not notice that their collective calls differ; they do where this leads to a deadlock or to messages of other
//! lengths. Agreement costs no time: [`exchange_headers`](Communicator::exchange_headers) and
//! [`split`](Communicator::split) are the threads' own. Ranks share no memory here, since writes to it would pass no port.

mod network;
mod wire;

pub use network::Network;

use super::received::Counter;
use super::shared::Apart;
use super::threads::{Shared, ThreadComm};
use super::{
    Arrival, Broadcast, Carrier, Chain, CollectiveCall, Combining, Communicator, Flight, Lane, Piece, Received, Rounds,
    SharedMemory, check, exchange_words, flight, in_order,
};
use crate::Result;
use polyshard_memory::split_mut;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use wire::Wire;

/// Maximum segments of each half of a broadcast or a reduction, if ranks forward them.
const SEGMENTS: usize = 16;
/// A half has one segment per this many bytes or fewer, up to [`SEGMENTS`].
const LEAST: usize = 512;

/// One rank's view of a group of an emulated machine.
pub struct Emulated {
    /// The caller's messages.
    messages: Wire,
    /// Messages of collectives, which must not match the caller's messages.
    collectives: Wire,
    /// Shared by all groups of this rank.
    received: Arc<Counter>,
}

impl Emulated {
    /// Returns the group of all devices of the network, seen from the rank of `comm`, the world of the threads of
    /// `ranks`, one per device. Collective over these ranks.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the number of threads is not the number of devices.
    pub fn world(comm: ThreadComm, network: Arc<Network>, ranks: Arc<Shared>) -> Result<Self> {
        assert_eq!(comm.size(), network.devices(), "one thread per device: this is a bug in polyshard");
        let members: Arc<[usize]> = (0..comm.size()).collect();
        let collectives = comm.divided(0, comm.rank())?;
        let messages = Wire::new(comm, Arc::clone(&members), network, ranks);
        let collectives = messages.over(collectives, members);
        Ok(Self { messages, collectives, received: Arc::default() })
    }

    fn count(&self, bytes: usize) {
        self.received.message(bytes);
    }

    /// Returns this rank's part of the group; see [`Communicator::split`].
    fn divided(&self, color: usize, key: usize) -> Result<Self> {
        let comm = self.messages.comm().divided(color, key)?;
        let headers = exchange_words(&comm, "split", [self.messages.world_rank() as u64])?;
        let members: Arc<[usize]> = headers.iter().map(|header| header[0] as usize).collect();
        let collectives = self.messages.over(comm.divided(0, comm.rank())?, Arc::clone(&members));
        let messages = self.messages.over(comm, members);
        Ok(Self { messages, collectives, received: Arc::clone(&self.received) })
    }

    /// Carries out a collective with a root by two chains around the group, one in each direction, each with half of the data.
    ///
    /// ```text
    /// broadcast from 0     first half  0 -> 1 -> 2 -> 3      second half  0 -> 3 -> 2 -> 1
    /// reduce to 0                      1 -> 2 -> 3 -> 0                   3 -> 2 -> 1 -> 0
    /// ```
    fn chains(&self, root: usize, data: &[u8], combining: Option<Combining>) -> Result<Piece> {
        let (wire, size) = (&self.collectives, self.size());
        let unit = combining.map_or(1, |combining| combining.dtype.size());
        let middle = data.len() / unit / 2 * unit;
        let mut bounds = segments(0..middle, unit, size - 1);
        let half = bounds.len() - 1;
        bounds.extend(&segments(middle..data.len(), unit, size - 1)[1..]);
        let chains = Chain::both_ways(size, root, [0..half, half..bounds.len() - 1]);
        let (chains, arrival) = match combining {
            Some(_) => (chains.map(Chain::reversed), Arrival::Combine),
            None => (chains, Arrival::Replace),
        };
        let seconds = |from, to| wire.seconds_per_byte(from, to);
        self.run(Rounds::chains(&chains, self.rank(), bounds, arrival, seconds), data, combining)
    }

    fn run(&self, rounds: Rounds, data: &[u8], combining: Option<Combining>) -> Result<Piece> {
        rounds.start(Piece::copy_of(data, "the data of a collective")?, combining).wait(&self.collectives)
    }

    fn all_to_all_parts(
        &self,
        send: &[u8],
        send_counts: &[usize],
        into: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<()> {
        let mut rest = send;
        let parts = send_counts.iter().map(|&count| rest.split_off(..count).expect("the counts have been checked"));
        let mut leaving: Vec<_> = parts.enumerate().collect();
        let mut coming: Vec<_> = split_mut(into, receive_counts.iter().copied()).enumerate().collect();
        // Each rank sends to the next rank first, then to the one after it, so that all ports are busy from the start.
        leaving.rotate_left(self.rank());
        self.collectives.exchange(&leaving, &mut coming)
    }

    fn all_meet(&self) -> Result<()> {
        // After step s each rank has heard, directly or indirectly, from the 2^s ranks before it.
        let wire = &self.collectives;
        let places = std::iter::successors(Some(1), |far| Some(2 * far)).take_while(|&far| far < self.size());
        for far in places {
            wire.exchange(&[(wire.after(far), &[])], &mut [(wire.before(far), &mut [])])?;
        }
        Ok(())
    }
}

impl Communicator for Emulated {
    fn rank(&self) -> usize {
        self.messages.rank()
    }

    fn size(&self) -> usize {
        self.messages.size()
    }

    fn world_rank(&self, rank: usize) -> usize {
        self.messages.comm().world_rank(rank)
    }

    fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), to)?;
        self.messages.exchange(&[(to, data)], &mut [])
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), from)?;
        self.count(into.len());
        self.messages.exchange(&[], &mut [(from, into)])
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        self.messages.exchange(sends, receives)?;
        let others = receives.iter().filter(|receive| receive.0 != self.rank());
        self.count(others.map(|receive| receive.1.len()).sum());
        Ok(())
    }

    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        self.messages.post(sends, receives)
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        self.messages.check()?;
        flight::poll(flights, Some(&self.received))
    }

    fn collective(&self, collective: CollectiveCall<'_>) -> Result<()> {
        if collective.is_in_order() {
            return in_order::carry_out(self, collective);
        }
        let (size, rank) = (self.size(), self.rank());
        collective.check(size, rank)?;
        self.count(collective.received(size, rank));
        match collective {
            CollectiveCall::Barrier => self.all_meet(),
            CollectiveCall::Headers { .. } => self.messages.comm().collective(collective),
            CollectiveCall::Broadcast(Broadcast::Send(data)) => self.chains(rank, data, None).map(drop),
            CollectiveCall::Broadcast(Broadcast::Receive { root, into }) => {
                into.copy_from_slice(&self.chains(root, into, None)?);
                Ok(())
            }
            CollectiveCall::AllGather { send, into, counts } => {
                let start: usize = counts[..rank].iter().sum();
                into[start..start + send.len()].copy_from_slice(send);
                into.copy_from_slice(&self.run(Rounds::ring_all_gather(rank, counts, 1), into, None)?);
                Ok(())
            }
            CollectiveCall::AllToAll { send, send_counts, into, receive_counts } => {
                self.all_to_all_parts(send, send_counts, into, receive_counts)
            }
            CollectiveCall::Reduce { root, data, combining } => {
                let sum = self.chains(root, data, Some(combining))?;
                if rank == root {
                    data.copy_from_slice(&sum);
                }
                Ok(())
            }
            CollectiveCall::AllReduce { data, combining } => {
                let unit = combining.dtype.size();
                let bounds = Rounds::segments(data.len(), size, unit);
                let counts: Vec<usize> = bounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let sums = Rounds::ring_reduce_scatter(rank, &counts, unit);
                let rounds = sums.then(Rounds::ring_all_gather(rank, &counts, unit));
                data.copy_from_slice(&self.run(rounds, data, Some(combining))?);
                Ok(())
            }
            CollectiveCall::ReduceScatter { send, into, counts, combining } => {
                let rounds = Rounds::ring_reduce_scatter(rank, counts, combining.dtype.size());
                let start: usize = counts[..rank].iter().sum();
                into.copy_from_slice(&self.run(rounds, send, Some(combining))?[start..start + into.len()]);
                Ok(())
            }
        }
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(self.divided(color, key)?))
    }

    fn lane(&self) -> Result<Lane> {
        Ok(Lane::new(self.divided(0, self.rank())?))
    }

    fn count_in_place(&self, bytes: usize) {
        self.received.in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        Ok(Rc::new(Apart { rank: self.rank() }))
    }

    fn received(&self) -> Received {
        self.received.get()
    }

    fn is_checked(&self) -> bool {
        self.messages.comm().is_checked()
    }

    fn abort(&self, message: &str) {
        self.messages.comm().abort(message);
    }
}

/// Returns the bounds of the segments of a half that takes `hops` hops: one segment if no rank forwards them. An empty half has
/// one segment too, so that the ranks synchronise.
fn segments(half: Range<usize>, unit: usize, hops: usize) -> Vec<usize> {
    let count = if hops == 1 { 1 } else { half.len().div_ceil(LEAST).clamp(1, SEGMENTS) };
    Rounds::segments(half.len(), count, unit).into_iter().map(|bound| half.start + bound).collect()
}

#[cfg(test)]
mod tests;
