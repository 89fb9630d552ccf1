//! An emulated machine: threads whose messages take the machine's time.
//!
//! Ranks are the devices of a [`Machine`](polyshard_machine::Machine). Every message reserves the ports that it would
//! pass there, on a clock that all ranks share, and its receiver sleeps until it would have arrived. Collectives are
//! carried out for real, as the [rounds](Rounds) of rings and chains, so their cost follows from the messages
//! alone: concurrent groups contend for the ports that they share, and no code asks the planner how long a collective
//! should take. That makes measurements here a test of the planner's model.
//!
//! ```text
//! rank 0   reserves ports until 7.2, sends "data" with the time 7.2
//! rank 1   receives "data", and sleeps until 7.2
//! ```
//!
//! The sender does not wait: a message is in flight as soon as it is sent, and only its ports delay it. A message of a rank to itself
//! passes no port.
//!
//! As on MPI, ranks may not notice that their collective calls differ; they do where this leads to a deadlock or to messages of other
//! lengths. Agreement costs no time: [`exchange_headers`](Communicator::exchange_headers) and
//! [`split`](Communicator::split) are the threads' own. Ranks share no memory here, since writes to it would pass no port.

use super::network::Network;
use super::{Emulated, ThreadComm};
use crate::{Arrival, Broadcast, Chain, CollectiveCall, Combining, Communicator, Piece, Result, Rounds, in_order};
use polyshard_memory::split_mut;
use std::ops::Range;
use std::sync::Arc;

/// Maximum segments of each half of a broadcast or a reduction, if ranks forward them.
const SEGMENTS: usize = 16;
/// A half has one segment per this many bytes or fewer, up to [`SEGMENTS`].
const LEAST: usize = 512;

impl ThreadComm {
    /// Returns the group on an emulated machine, of which each rank is a device. Collective.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn emulated(mut self, network: Arc<Network>) -> Result<Self> {
        let mut collectives = self.divided(0, self.rank)?;
        // The caller counts what a collective receives, and not its messages.
        collectives.received = Arc::default();
        collectives.emulated = Some(Emulated { network: Arc::clone(&network), collectives: None });
        self.emulated = Some(Emulated { network, collectives: Some(Box::new(collectives)) });
        Ok(self)
    }

    /// Carries out a collective by messages in the group `comm`, which has the same members.
    pub(super) fn by_messages(&self, comm: &Self, network: &Network, collective: CollectiveCall<'_>) -> Result<()> {
        if collective.is_in_order() {
            return in_order::carry_out(self, collective);
        }
        let (size, rank) = (self.size(), self.rank);
        self.count(collective.received(size, rank));
        match collective {
            CollectiveCall::Barrier | CollectiveCall::Headers { .. } => comm.all_meet()?,
            CollectiveCall::Broadcast(Broadcast::Send(data)) => drop(comm.chains(network, rank, data, None)?),
            CollectiveCall::Broadcast(Broadcast::Receive { root, into }) => {
                into.copy_from_slice(&comm.chains(network, root, into, None)?);
            }
            CollectiveCall::AllGather { send, into, counts } => {
                let start: usize = counts[..rank].iter().sum();
                into[start..start + send.len()].copy_from_slice(send);
                into.copy_from_slice(&comm.run(Rounds::ring_all_gather(rank, counts, 1), into, None)?);
            }
            CollectiveCall::AllToAll { send, send_counts, into, receive_counts } => {
                comm.all_to_all_parts(send, send_counts, into, receive_counts)?;
            }
            CollectiveCall::Reduce { root, data, combining } => {
                let sum = comm.chains(network, root, data, Some(combining))?;
                if rank == root {
                    data.copy_from_slice(&sum);
                }
            }
            CollectiveCall::AllReduce { data, combining } => {
                let unit = combining.dtype.size();
                let bounds = Rounds::segments(data.len(), size, unit);
                let counts: Vec<usize> = bounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let sums = Rounds::ring_reduce_scatter(rank, &counts, unit);
                let rounds = sums.then(Rounds::ring_all_gather(rank, &counts, unit));
                data.copy_from_slice(&comm.run(rounds, data, Some(combining))?);
            }
            CollectiveCall::ReduceScatter { send, into, counts, combining } => {
                let rounds = Rounds::ring_reduce_scatter(rank, counts, combining.dtype.size());
                let start: usize = counts[..rank].iter().sum();
                into.copy_from_slice(&comm.run(rounds, send, Some(combining))?[start..start + into.len()]);
            }
        }
        Ok(())
    }

    /// Carries out a collective with a root by two chains around the group, one in each direction, each with half of the data.
    ///
    /// ```text
    /// broadcast from 0     first half  0 -> 1 -> 2 -> 3      second half  0 -> 3 -> 2 -> 1
    /// reduce to 0                      1 -> 2 -> 3 -> 0                   3 -> 2 -> 1 -> 0
    /// ```
    fn chains(&self, network: &Network, root: usize, data: &[u8], combining: Option<Combining>) -> Result<Piece> {
        let size = self.size();
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
        let seconds = |from: usize, to: usize| network.seconds_per_byte(self.members[from], self.members[to]);
        self.run(Rounds::chains(&chains, self.rank, bounds, arrival, seconds), data, combining)
    }

    fn run(&self, rounds: Rounds, data: &[u8], combining: Option<Combining>) -> Result<Piece> {
        rounds.start(Piece::copy_of(data, "the data of a collective")?, combining).wait(self)
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
        leaving.rotate_left(self.rank);
        self.exchange(&leaving, &mut coming)
    }

    fn all_meet(&self) -> Result<()> {
        // After step s each rank has heard, directly or indirectly, from the 2^s ranks before it.
        let (rank, size) = (self.rank, self.size());
        let places = std::iter::successors(Some(1), |far| Some(2 * far)).take_while(|&far| far < size);
        for far in places {
            self.exchange(&[((rank + far) % size, &[])], &mut [((rank + size - far) % size, &mut [])])?;
        }
        Ok(())
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
