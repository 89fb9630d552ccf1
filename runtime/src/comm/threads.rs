//! The communicator whose ranks are threads of one process.
//!
//! All ranks share one locked state ([`state`]), so what each of them waits for is known exactly, and a
//! deadlock is found the moment the last rank blocks or ends, not by a timeout. A message is copied once
//! when it is sent and once when it is received, both outside the lock. Collectives are meetings
//! ([`meeting`]): each rank brings its call and its data, the last to arrive compares the calls, and then
//! all take what they need from what the others brought. Reductions combine in rank order, so results do
//! not depend on timing.
//!
//! Messages name ranks by their numbers in the world, also for groups that were split off.

mod failure;
mod meeting;
mod state;

pub(crate) use failure::Failure;
pub(crate) use state::Shared;

use super::call::Call;
use super::shared::OneProcess;
use super::{Broadcast, Communicator, Note, SharedMemory, check, combine, in_order};
use crate::{ElementKind, ReduceOp, Result};
use meeting::{CHUNK, Round};
use state::{GroupId, Message};
use std::cell::Cell;
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
    received: Rc<Cell<u64>>,
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

    fn meet(&self, call: Call, data: Message) -> Result<Arc<Round>> {
        self.shared.meet(self.group, self.rank, self.this(), call, data)
    }

    fn told(&self, call: Call, note: Note) -> Result<Vec<Note>> {
        let round = self.meet(call, Message::from(bytemuck::bytes_of(&note)))?;
        Ok(round.data.iter().map(|data| bytemuck::pod_read_unaligned(data)).collect())
    }

    fn take(&self, from: usize, into: &mut [u8]) -> Result<()> {
        let (this, from) = (self.this(), self.members[from]);
        let message = self.shared.receive(self.group, this, from, into.len())?;
        if message.len() != into.len() {
            return Err(check::length(this, from, into.len(), Some(message.len())));
        }
        into.copy_from_slice(&message);
        self.count(message.len());
        Ok(())
    }

    fn count(&self, bytes: usize) {
        self.received.set(self.received.get() + bytes as u64);
    }

    /// Counts one contribution of `bytes` from each other rank.
    fn count_from_all(&self, bytes: usize) {
        self.count(bytes * (self.size() - 1));
    }

    /// Puts the ranks' contributions, from byte `start` of each, together into `into`, in rank order.
    fn combine(round: &Round, start: usize, into: &mut [u8], kind: ElementKind, op: ReduceOp) {
        let range = start..start + into.len();
        let mut parts = round.data.iter().map(|data| &data[range.clone()]);
        let first = parts.next().expect("a group has a rank: this is a bug of polyshard");
        into.copy_from_slice(first);
        for part in parts {
            combine::combine(kind, op, into, part);
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
        self.shared.send(self.group, self.this(), [(self.members[to], Message::from(data))])
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        check::peer(self.size(), self.rank, from)?;
        self.take(from, into)
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        check::exchange(self.size(), self.rank, sends, receives)?;
        let others = sends.iter().filter(|send| send.0 != self.rank);
        let messages: Vec<_> = others.map(|&(to, data)| (self.members[to], Message::from(data))).collect();
        self.shared.send(self.group, self.this(), messages)?;
        // Sending never blocks here, so the receives may wait one after the other.
        for (from, into) in receives.iter_mut().filter(|receive| receive.0 != self.rank) {
            self.take(*from, into)?;
        }
        Ok(())
    }

    fn broadcast(&self, part: Broadcast<'_>) -> Result<()> {
        match part {
            Broadcast::Send(data) => {
                let call = Call::Broadcast { root: self.this(), bytes: data.len() };
                // A root that is alone need not copy for anyone.
                let data = if self.size() == 1 { Message::default() } else { Message::from(data) };
                self.meet(call, data).map(drop)
            }
            Broadcast::Receive { root, into } => {
                check::root_receives(self.size(), self.rank, root)?;
                let call = Call::Broadcast { root: self.members[root], bytes: into.len() };
                let round = self.meet(call, Message::default())?;
                into.copy_from_slice(&round.data[root]);
                self.count(into.len());
                Ok(())
            }
        }
    }

    fn all_gather(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        check::counts(self.size(), counts, "into", into.len())?;
        check::own_count(counts[self.rank], "send", send.len())?;
        let round = self.meet(Call::AllGather { counts: counts.into() }, Message::from(send))?;
        self.count(into.len() - send.len());
        let mut rest = into;
        for data in &round.data {
            let (part, tail) = rest.split_at_mut(data.len());
            part.copy_from_slice(data);
            rest = tail;
        }
        Ok(())
    }

    fn all_to_all(&self, send: &[u8], send_counts: &[usize], into: &mut [u8], receive_counts: &[usize]) -> Result<()> {
        check::counts(self.size(), send_counts, "send", send.len())?;
        check::counts(self.size(), receive_counts, "into", into.len())?;
        let call = Call::AllToAll { send: send_counts.into(), receive: receive_counts.into() };
        let round = self.meet(call, Message::from(send))?;
        self.count(into.len() - receive_counts[self.rank]);
        let mut rest = into;
        for (data, call) in round.data.iter().zip(&round.calls) {
            let Call::AllToAll { send, .. } = call else { panic!("another call got past: this is a bug of polyshard") };
            let start: usize = send[..self.rank].iter().sum();
            let (part, tail) = rest.split_at_mut(send[self.rank]);
            part.copy_from_slice(&data[start..start + part.len()]);
            rest = tail;
        }
        Ok(())
    }

    fn reduce(&self, root: usize, data: &mut [u8], kind: ElementKind, op: ReduceOp) -> Result<()> {
        check::member(self.size(), root)?;
        check::elements(kind, data)?;
        let call = Call::Reduce { root: self.members[root], bytes: data.len(), kind, op };
        let round = self.meet(call, Message::from(&*data))?;
        if self.rank == root {
            Self::combine(&round, 0, data, kind, op);
            self.count_from_all(data.len());
        }
        Ok(())
    }

    fn all_reduce(&self, data: &mut [u8], kind: ElementKind, op: ReduceOp) -> Result<()> {
        check::elements(kind, data)?;
        let round = self.meet(Call::AllReduce { bytes: data.len(), kind, op }, Message::from(&*data))?;
        self.count_from_all(data.len());
        // The ranks share the work: each starts at a chunk of its own, and finds the others' done.
        let chunks = round.combined.len();
        for nth in 0..chunks {
            let chunk = (chunks * self.rank / self.size() + nth) % chunks;
            let start = chunk * CHUNK;
            let len = CHUNK.min(data.len() - start);
            let combined = round.combined[chunk].get_or_init(|| {
                let mut combined = vec![0; len];
                Self::combine(&round, start, &mut combined, kind, op);
                combined
            });
            data[start..start + len].copy_from_slice(combined);
        }
        Ok(())
    }

    fn reduce_scatter(
        &self,
        send: &[u8],
        into: &mut [u8],
        counts: &[usize],
        kind: ElementKind,
        op: ReduceOp,
    ) -> Result<()> {
        check::reduce_scatter(self.size(), self.rank, send, into, counts, kind)?;
        let round = self.meet(Call::ReduceScatter { counts: counts.into(), kind, op }, Message::from(send))?;
        Self::combine(&round, counts[..self.rank].iter().sum(), into, kind, op);
        self.count_from_all(into.len());
        Ok(())
    }

    // These are in rank order anyway, so all that is left is to count bytes as the other communicators do.

    fn reduce_in_order(&self, root: usize, data: &mut [u8], kind: ElementKind, op: ReduceOp) -> Result<()> {
        let received = self.received.get();
        self.reduce(root, data, kind, op)?;
        self.received.set(received);
        self.count(in_order::received(data.len(), self.size(), self.rank, Some(root), kind));
        Ok(())
    }

    fn all_reduce_in_order(&self, data: &mut [u8], kind: ElementKind, op: ReduceOp) -> Result<()> {
        let received = self.received.get();
        self.all_reduce(data, kind, op)?;
        self.received.set(received);
        self.count(in_order::received(data.len(), self.size(), self.rank, None, kind));
        Ok(())
    }

    fn reduce_scatter_in_order(
        &self,
        send: &[u8],
        into: &mut [u8],
        counts: &[usize],
        kind: ElementKind,
        op: ReduceOp,
    ) -> Result<()> {
        self.reduce_scatter(send, into, counts, kind, op)
    }

    fn barrier(&self) -> Result<()> {
        self.meet(Call::Barrier, Message::default()).map(drop)
    }

    fn tell(&self, note: Note) -> Result<Vec<Note>> {
        self.told(Call::HEADERS, note)
    }

    fn tell_about(&self, about: &str, note: Note) -> Result<Vec<Note>> {
        self.told(Call::Tell { about: String::from(about).into() }, note)
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        let round = self.meet(Call::Split { color, key }, Message::default())?;
        let seat = &round.seats[self.rank];
        Ok(Box::new(Self {
            shared: Arc::clone(&self.shared),
            group: seat.group,
            members: Arc::clone(&seat.members),
            rank: seat.rank,
            received: Rc::clone(&self.received),
        }))
    }

    fn settle(&self) -> Result<()> {
        self.shared.settle(self.group);
        Ok(())
    }

    fn count_received(&self, bytes: usize) {
        self.count(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        Ok(Rc::new(OneProcess))
    }

    fn bytes_received(&self) -> u64 {
        self.received.get()
    }

    fn abort(&self, message: &str) {
        self.shared.fail(Failure::Error { rank: self.this(), message: message.into() });
    }
}

impl Drop for ThreadComm {
    fn drop(&mut self) {
        self.shared.leave(self.group);
    }
}
