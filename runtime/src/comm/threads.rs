//! The communicator whose ranks are threads of one process.
//!
//! All ranks share one locked state ([`state`]), so what each of them waits for is known exactly, and a
//! deadlock is found the moment the last rank blocks or ends, not by a timeout. In a collective
//! ([`arrivals`]) each rank brings its call and its data, the last to arrive compares the calls, and then
//! all take what they need from what the others brought. Reductions combine in rank order, so results do
//! not depend on timing. Long messages are read where their sender has them, which waits for that
//! ([`rendezvous`]); short ones are copied when they are sent, and again when they are received. No data are copied
//! under the lock.
//!
//! Messages name ranks by their numbers in the world, also for groups that were split off.

mod arrivals;
mod failure;
mod group;
mod message;
mod rendezvous;
mod state;

pub(crate) use failure::Failure;
pub(crate) use state::Shared;

use super::call::Call;
use super::received::Counter;
use super::shared::OneProcess;
use super::{Broadcast, Communicator, Header, Received, SharedMemory, check, combine, in_order};
use crate::{DType, ReduceOp, Result};
use arrivals::{CHUNK, Chunk, Contributions};
use group::GroupId;
use message::Message;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// One rank's view of a group of threads.
pub(crate) struct ThreadComm {
    shared: Arc<Shared>,
    group: GroupId,
    /// World ranks of the members, by rank in the group.
    members: Arc<[usize]>,
    rank: usize,
    /// Shared by all groups of this rank.
    received: Rc<Counter>,
}

impl ThreadComm {
    /// Returns the group of all ranks of `shared`, seen from `rank`. Once per rank, on the rank's thread.
    pub(crate) fn world(shared: Arc<Shared>, rank: usize) -> Self {
        let members = (0..shared.size()).collect();
        Self { shared, group: GroupId::WORLD, members, rank, received: Rc::default() }
    }

    /// Returns this rank's number in the world.
    fn this(&self) -> usize {
        self.members[self.rank]
    }

    fn meet(&self, call: Call<'static>, data: Message) -> Result<Arc<Contributions>> {
        self.shared.meet(self.group, self.rank, self.this(), call, data)
    }

    /// As [`meet`](Self::meet), with data that the others read where they are if they are long.
    fn meet_in_place(&self, call: Call<'static>, data: &[u8], read: impl FnOnce(&Contributions)) -> Result<()> {
        self.shared.meet_in_place(self.group, [self.rank, self.this()], call, data, read)
    }

    /// Combines the data that all ranks bring to a reduction; returns the result, in chunks.
    ///
    /// The ranks share the work: each starts at a chunk of its own, and finds the others' done.
    fn combined(&self, call: Call<'static>, data: &[u8], dtype: DType, op: ReduceOp) -> Result<Arc<[Chunk]>> {
        let mut result: Arc<[Chunk]> = Arc::default();
        self.meet_in_place(call, data, |contributions| {
            result = Arc::clone(&contributions.combined);
            let chunks = result.len();
            for nth in 0..chunks {
                let chunk = (chunks * self.rank / self.size() + nth) % chunks;
                let start = chunk * CHUNK;
                result[chunk].get_or_init(|| {
                    let mut combined = vec![0; CHUNK.min(data.len() - start)];
                    Self::combine(contributions, start, &mut combined, dtype, op);
                    combined
                });
            }
        })?;
        Ok(result)
    }

    fn take(&self, from: usize, into: &mut [u8]) -> Result<()> {
        let (this, from) = (self.this(), self.members[from]);
        match self.shared.receive_into(self.group, this, from, into)? {
            Some(other) => Err(check::length(this, from, into.len(), Some(other))),
            None => {
                self.count(into.len());
                Ok(())
            }
        }
    }

    fn count(&self, bytes: usize) {
        self.received.message(bytes);
    }

    /// Counts one contribution of `bytes` from each other rank.
    fn count_from_all(&self, bytes: usize) {
        self.count(bytes * (self.size() - 1));
    }

    /// Puts the ranks' contributions, from byte `start` of each, together into `into`, in rank order.
    fn combine(contributions: &Contributions, start: usize, into: &mut [u8], dtype: DType, op: ReduceOp) {
        let range = start..start + into.len();
        let mut parts = contributions.data.iter().map(|data| &data[range.clone()]);
        let first = parts.next().expect("a group has a rank: this is a bug of polyshard");
        into.copy_from_slice(first);
        for part in parts {
            combine::combine(dtype, op, into, part);
        }
    }
}

impl Communicator for ThreadComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn world_rank(&self, rank: usize) -> usize {
        self.members[rank]
    }

    fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        check::peer(self.size(), self.rank, to)?;
        self.shared.send(self.group, self.this(), [(self.members[to], Message::eager(data))])
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        check::peer(self.size(), self.rank, from)?;
        self.take(from, into)
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        check::exchange(self.size(), self.rank, sends, receives)?;
        let others = sends.iter().filter(|send| send.0 != self.rank);
        let messages = others.map(|&(to, data)| (self.members[to], data));
        // Messages are on their way before any is waited for, so the receives may wait one after the other.
        self.shared.send_in_place(self.group, self.this(), messages, || {
            let mut others = receives.iter_mut().filter(|receive| receive.0 != self.rank);
            others.try_for_each(|(from, into)| self.take(*from, into))
        })
    }

    fn broadcast(&self, part: Broadcast<'_>) -> Result<()> {
        match part {
            Broadcast::Send(data) => {
                let call = Call::Broadcast { root: self.this(), bytes: data.len() };
                // A root that is alone need not copy for anyone.
                let data = if self.size() == 1 { &[] } else { data };
                self.meet_in_place(call, data, |_| {})
            }
            Broadcast::Receive { root, into } => {
                check::root_receives(self.size(), self.rank, root)?;
                let call = Call::Broadcast { root: self.members[root], bytes: into.len() };
                self.meet_in_place(call, &[], |contributions| into.copy_from_slice(&contributions.data[root]))?;
                self.count(into.len());
                Ok(())
            }
        }
    }

    fn all_gather(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        check::counts(self.size(), counts, "into", into.len())?;
        check::own_count(counts[self.rank], "send", send.len())?;
        let received = into.len() - send.len();
        self.meet_in_place(Call::AllGather { counts: counts.to_vec().into() }, send, |contributions| {
            let mut rest = into;
            for data in &contributions.data {
                let (part, tail) = rest.split_at_mut(data.len());
                part.copy_from_slice(data);
                rest = tail;
            }
        })?;
        self.count(received);
        Ok(())
    }

    fn all_to_all(&self, send: &[u8], send_counts: &[usize], into: &mut [u8], receive_counts: &[usize]) -> Result<()> {
        check::counts(self.size(), send_counts, "send", send.len())?;
        check::counts(self.size(), receive_counts, "into", into.len())?;
        let call = Call::AllToAll { send: send_counts.to_vec().into(), receive: receive_counts.to_vec().into() };
        let received = into.len() - receive_counts[self.rank];
        self.meet_in_place(call, send, |contributions| {
            let mut rest = into;
            for (data, call) in contributions.data.iter().zip(&contributions.calls) {
                let Call::AllToAll { send, .. } = call else {
                    panic!("another call got past: this is a bug of polyshard")
                };
                let start: usize = send[..self.rank].iter().sum();
                let (part, tail) = rest.split_at_mut(send[self.rank]);
                part.copy_from_slice(&data[start..start + part.len()]);
                rest = tail;
            }
        })?;
        self.count(received);
        Ok(())
    }

    fn reduce(&self, root: usize, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::member(self.size(), root)?;
        check::elements(dtype, data)?;
        let call = Call::Reduce { root: self.members[root], bytes: data.len(), dtype, op };
        let combined = self.combined(call, data, dtype, op)?;
        if self.rank == root {
            put_together(&combined, data);
            self.count_from_all(data.len());
        }
        Ok(())
    }

    fn all_reduce(&self, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::elements(dtype, data)?;
        let combined = self.combined(Call::AllReduce { bytes: data.len(), dtype, op }, data, dtype, op)?;
        put_together(&combined, data);
        self.count_from_all(data.len());
        Ok(())
    }

    fn reduce_scatter(&self, send: &[u8], into: &mut [u8], counts: &[usize], dtype: DType, op: ReduceOp) -> Result<()> {
        check::reduce_scatter(self.size(), self.rank, send, into, counts, dtype)?;
        let start = counts[..self.rank].iter().sum();
        let call = Call::ReduceScatter { counts: counts.to_vec().into(), dtype, op };
        self.meet_in_place(call, send, |contributions| Self::combine(contributions, start, into, dtype, op))?;
        self.count_from_all(into.len());
        Ok(())
    }

    // These are in rank order anyway, so all that is left is to count bytes as the other communicators do.

    fn reduce_in_order(&self, root: usize, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        let received = self.received.get();
        self.reduce(root, data, dtype, op)?;
        self.received.set(received);
        self.count(in_order::received(data.len(), self.size(), self.rank, Some(root), dtype));
        Ok(())
    }

    fn all_reduce_in_order(&self, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        let received = self.received.get();
        self.all_reduce(data, dtype, op)?;
        self.received.set(received);
        self.count(in_order::received(data.len(), self.size(), self.rank, None, dtype));
        Ok(())
    }

    fn reduce_scatter_in_order(
        &self,
        send: &[u8],
        into: &mut [u8],
        counts: &[usize],
        dtype: DType,
        op: ReduceOp,
    ) -> Result<()> {
        self.reduce_scatter(send, into, counts, dtype, op)
    }

    fn barrier(&self) -> Result<()> {
        self.meet(Call::Barrier, Message::eager(&[])).map(drop)
    }

    fn exchange_headers(&self, tag: Cow<'static, str>, header: Header, into: &mut Vec<Header>) -> Result<()> {
        self.shared.exchange_headers(self.group, [self.rank, self.this()], tag, header, into)
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        let contributions = self.meet(Call::Split { color, key }, Message::eager(&[]))?;
        let place = &contributions.memberships[self.rank];
        Ok(Box::new(Self {
            shared: Arc::clone(&self.shared),
            group: place.group,
            members: Arc::clone(&place.members),
            rank: place.rank,
            received: Rc::clone(&self.received),
        }))
    }

    fn fence(&self) -> Result<()> {
        self.shared.fence(self.group);
        Ok(())
    }

    fn count_in_place(&self, bytes: usize) {
        self.received.in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        Ok(Rc::new(OneProcess { stranded: Arc::clone(self.shared.stranded()) }))
    }

    fn received(&self) -> Received {
        self.received.get()
    }

    fn is_checked(&self) -> bool {
        true
    }

    fn abort(&self, message: &str) {
        self.shared.fail(Failure::Error { rank: self.this(), message: message.into() });
    }
}

/// Copies the chunks of a result to where it is wanted.
fn put_together(chunks: &[Chunk], into: &mut [u8]) {
    for (chunk, into) in chunks.iter().zip(into.chunks_mut(CHUNK)) {
        into.copy_from_slice(chunk.get().expect("all ranks have combined; this is a bug of polyshard"));
    }
}

impl Drop for ThreadComm {
    fn drop(&mut self) {
        self.shared.leave(self.group);
    }
}
