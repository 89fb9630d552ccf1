//! The communicator of an emulated machine: threads, between which messages take their time.
//!
//! Ranks are the devices of a [`Machine`](polyshard_machine::Machine). Every message reserves the ports that
//! it would pass there, on a clock that all ranks share, and whoever receives it sleeps until it would have arrived.
//! Collectives are carried out for real, as the point-to-point messages of rings and chains, so what they cost
//! follows from the messages alone: concurrent groups meet at the ports that they share, and nothing asks the planner
//! how long a collective should take. That is what makes measuring here a test of the planner's model.
//!
//! | file | holds |
//! | --- | --- |
//! | `network` | ports, and when a message arrives |
//! | `wire` | real messages, each with its time |
//! | `ring` | all-gather, reduce-scatter, and all-reduce as both |
//! | `chain` | broadcast and reduce |
//!
//! As on MPI, ranks need not find out that they call collectives differently; they do where they then wait in a
//! circle or for other lengths. Agreeing costs no time: [`exchange_headers`](Communicator::exchange_headers), [`fence`](Communicator::fence)
//! and [`split`](Communicator::split) are the threads' own. Ranks share no memory here, for what is written there
//! would pass no port.

mod chain;
mod network;
mod ring;
mod wire;

pub(crate) use network::Network;

use super::received::Counter;
use super::shared::Apart;
use super::threads::{Shared, ThreadComm};
use super::{Broadcast, Communicator, Header, Received, SharedMemory, check, exchange_words};
use crate::{DType, ReduceOp, Result};
use ring::Blocks;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use wire::Wire;

/// One rank's view of a group of an emulated machine.
pub(crate) struct Emulated {
    /// What the caller sends.
    messages: Wire,
    /// What collectives send, which must not meet the caller's messages.
    collectives: Wire,
    /// Shared by all groups of this rank.
    received: Rc<Counter>,
}

impl Emulated {
    /// Returns the group of all devices of the network, seen from the rank of `comm`, the world of as many threads
    /// that `ranks` holds. Collective over these.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If there are not as many threads as devices.
    pub(crate) fn world(comm: ThreadComm, network: Arc<Network>, ranks: Arc<Shared>) -> Result<Self> {
        assert_eq!(comm.size(), network.devices(), "one thread per device: this is a bug of polyshard");
        let members: Rc<[usize]> = (0..comm.size()).collect();
        let collectives = comm.split(0, comm.rank())?;
        let messages = Wire::new(Box::new(comm), members.clone(), network, ranks);
        let collectives = messages.over(collectives, members);
        Ok(Self { messages, collectives, received: Rc::default() })
    }

    fn count(&self, bytes: usize) {
        self.received.message(bytes);
    }

    /// Counts one contribution of `bytes` from each other rank.
    fn count_from_all(&self, bytes: usize) {
        self.count(bytes * (self.size() - 1));
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

    fn broadcast(&self, part: Broadcast<'_>) -> Result<()> {
        match part {
            Broadcast::Send(data) => chain::broadcast(&self.collectives, self.rank(), chain::Outgoing::Root(data)),
            Broadcast::Receive { root, into } => {
                check::root_receives(self.size(), self.rank(), root)?;
                self.count(into.len());
                chain::broadcast(&self.collectives, root, chain::Outgoing::Other(into))
            }
        }
    }

    fn all_gather(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        check::counts(self.size(), counts, "into", into.len())?;
        check::own_count(counts[self.rank()], "send", send.len())?;
        let blocks = Blocks::of(counts, 1);
        into[blocks.of_rank(self.rank())].copy_from_slice(send);
        self.count(into.len() - send.len());
        ring::all_gather(&self.collectives, into, &blocks)
    }

    fn all_to_all(&self, send: &[u8], send_counts: &[usize], into: &mut [u8], receive_counts: &[usize]) -> Result<()> {
        check::counts(self.size(), send_counts, "send", send.len())?;
        check::counts(self.size(), receive_counts, "into", into.len())?;
        self.count(into.len() - receive_counts[self.rank()]);
        let (mut leaving, mut coming) = (Vec::new(), Vec::new());
        let (mut send, mut into) = (send, into);
        for (rank, (&out, &back)) in send_counts.iter().zip(receive_counts).enumerate() {
            let (part, rest) = send.split_at(out);
            leaving.push((rank, part));
            let (place, others) = into.split_at_mut(back);
            coming.push((rank, place));
            (send, into) = (rest, others);
        }
        // Everyone sends to the next rank first, then to the one after it, so that all ports are in use from the start.
        leaving.rotate_left(self.rank());
        self.collectives.exchange(&leaving, &mut coming)
    }

    fn reduce(&self, root: usize, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::member(self.size(), root)?;
        check::elements(dtype, data)?;
        if self.rank() == root {
            self.count_from_all(data.len());
        }
        chain::reduce(&self.collectives, root, data, dtype, op)
    }

    fn all_reduce(&self, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::elements(dtype, data)?;
        self.count_from_all(data.len());
        let blocks = Blocks::even(data.len(), self.size(), dtype.size());
        ring::reduce_scatter(&self.collectives, data, &blocks, dtype, op)?;
        ring::all_gather(&self.collectives, data, &blocks)
    }

    fn reduce_scatter(&self, send: &[u8], into: &mut [u8], counts: &[usize], dtype: DType, op: ReduceOp) -> Result<()> {
        check::reduce_scatter(self.size(), self.rank(), send, into, counts, dtype)?;
        self.count_from_all(into.len());
        let blocks = Blocks::of(counts, dtype.size());
        let mut sums = send.to_vec();
        ring::reduce_scatter(&self.collectives, &mut sums, &blocks, dtype, op)?;
        into.copy_from_slice(&sums[blocks.of_rank(self.rank())]);
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        // After step s each rank has heard, directly or not, of the 2^s before it.
        let wire = &self.collectives;
        let places = std::iter::successors(Some(1), |far| Some(2 * far)).take_while(|&far| far < self.size());
        for far in places {
            wire.exchange(&[(wire.after(far), &[])], &mut [(wire.before(far), &mut [])])?;
        }
        Ok(())
    }

    fn exchange_headers(&self, tag: Cow<'static, str>, header: Header, into: &mut Vec<Header>) -> Result<()> {
        self.messages.comm().exchange_headers(tag, header, into)
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        let comm = self.messages.comm().split(color, key)?;
        let headers = exchange_words(&*comm, "split", [self.messages.world_rank() as u64])?;
        let members: Rc<[usize]> = headers.iter().map(|header| header[0] as usize).collect();
        let collectives = self.messages.over(comm.split(0, comm.rank())?, Rc::clone(&members));
        let messages = self.messages.over(comm, members);
        Ok(Box::new(Self { messages, collectives, received: Rc::clone(&self.received) }))
    }

    fn fence(&self) -> Result<()> {
        self.messages.comm().fence()
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

#[cfg(test)]
mod tests;
