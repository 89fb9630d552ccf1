//! The communicator whose ranks are threads of one process.
//!
//! All ranks share one locked state (`state`), so the wait of each of them is known exactly, and a deadlock is
//! found the moment the last rank blocks or ends, not by a timeout. In a collective (`arrivals`) each rank
//! contributes its call and its data, the last to arrive compares the calls, and then all read the data that they
//! need from the others' contributions. Reductions combine in rank order, so results do not depend on timing. Long
//! messages are read directly from the sender's buffer while the sender waits (`rendezvous`); short ones are
//! copied when they are sent, and again when they are received. No data are copied under the lock. Non-blocking
//! messages are copied by the rank that posts the second side (`flights`).
//!
//! Ranks can be the devices of an emulated machine: then messages take the machine's time (`network`), and collectives are built from
//! messages (`emulated`).
//!
//! Error messages name ranks by their world ranks, also for groups that were split off.
//! Tests: `runtime/tests/it/comm_threads.rs`.

mod arrivals;
mod emulated;
mod failure;
mod flights;
mod group;
mod message;
mod network;
mod operation;
mod posted;
mod rendezvous;
mod state;

pub use failure::Failure;
pub use network::Network;
pub use state::Shared;

use super::call::Call;
use super::received::Counter;
use super::shared::{Apart, OneProcess};
use super::{
    Broadcast, CollectiveCall, Communicator, Flight, Lane, Piece, Received, SharedMemory, alone, check, combine_terms,
    flight,
};
use crate::{DType, ReduceOp, Result};
use arrivals::{CHUNK, Chunk, Contributions};
use group::GroupId;
use message::Message;
use std::rc::Rc;
use std::sync::Arc;

/// One rank's view of a group of threads.
pub struct ThreadComm {
    shared: Arc<Shared>,
    group: GroupId,
    /// World ranks of the members, by rank in the group.
    members: Arc<[usize]>,
    rank: usize,
    /// Shared by all groups of this rank.
    received: Arc<Counter>,
    emulated: Option<Emulated>,
}

/// The machine whose devices the ranks are.
struct Emulated {
    network: Arc<Network>,
    /// The group for messages of collectives, which must not match the caller's messages; none in that group itself.
    collectives: Option<Box<ThreadComm>>,
}

impl ThreadComm {
    /// Returns the group of all ranks of `shared`, seen from `rank`. Call it once per rank, on the rank's thread.
    pub fn world(shared: Arc<Shared>, rank: usize) -> Self {
        let members = (0..shared.size()).collect();
        Self { shared, group: GroupId::WORLD, members, rank, received: Arc::default(), emulated: None }
    }

    /// Returns this rank's world rank.
    fn this(&self) -> usize {
        self.members[self.rank]
    }

    /// Refuses any call once this rank has dropped a flight that was not done.
    fn check(&self) -> Result<()> {
        self.shared.dropped(self.this()).check(|| self.this())
    }

    fn meet(&self, call: Call, data: Message) -> Result<Arc<Contributions>> {
        self.shared.meet(self.group, self.rank, self.this(), call, data)
    }

    /// As [`meet`](Self::meet), with data that the others read in place if they are long.
    fn meet_in_place(&self, call: Call, data: &[u8], read: impl FnOnce(&Contributions)) -> Result<()> {
        self.shared.meet_in_place(self.group, [self.rank, self.this()], call, data, read)
    }

    /// Combines the data that all ranks contribute to a reduction; returns the result, in chunks.
    ///
    /// The ranks share the work: each starts at a different chunk, and skips those that others have done.
    fn combined(&self, call: Call, data: &[u8], dtype: DType, op: ReduceOp) -> Result<Arc<[Chunk]>> {
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

    /// Returns what makes messages to ranks of the group that are sent now: each a copy, with its receiver and when it arrives on
    /// the emulated machine, if there is one.
    fn sending(&self) -> impl Fn(usize, &[u8]) -> (usize, Message, f64) {
        let network = self.emulated.as_ref().map(|emulated| (&emulated.network, emulated.network.now()));
        move |to, data| {
            let to = self.members[to];
            let arrives = network.map_or(0.0, |(network, now)| network.send(self.this(), to, data.len(), now));
            (to, Message::eager(data), arrives)
        }
    }

    fn take(&self, from: usize, into: &mut [u8]) -> Result<()> {
        let arrives = self.shared.receive_into(self.group, self.this(), self.members[from], into)?;
        self.count(into.len());
        match &self.emulated {
            Some(emulated) => emulated.network.sleep_until(arrives, || self.shared.check()),
            None => Ok(()),
        }
    }

    fn count(&self, bytes: usize) {
        self.received.message(bytes);
    }

    /// Returns this rank's part of the group; see [`Communicator::split`].
    fn divided(&self, color: usize, key: usize) -> Result<Self> {
        self.check()?;
        let contributions = self.meet(Call::Split { color, key }, Message::eager(&[]))?;
        let place = &contributions.memberships[self.rank];
        let part = self.part(place.group, Arc::clone(&place.members), place.rank);
        match &self.emulated {
            Some(emulated) => part.emulated(Arc::clone(&emulated.network)),
            None => Ok(part),
        }
    }

    /// Returns a group whose messages take no emulated time, with these members, seen from its rank `rank`, this one.
    fn part(&self, group: GroupId, members: Arc<[usize]>, rank: usize) -> Self {
        let (shared, received) = (Arc::clone(&self.shared), Arc::clone(&self.received));
        Self { shared, group, members, rank, received, emulated: None }
    }

    /// Combines the ranks' contributions, from byte `start` of each, into `into`, in rank order.
    fn combine(contributions: &Contributions, start: usize, into: &mut [u8], dtype: DType, op: ReduceOp) {
        let range = start..start + into.len();
        let mut terms = contributions.data.iter().map(|data| &data[range.clone()]);
        into.copy_from_slice(terms.next().expect("a group has a member; this is a bug in polyshard"));
        combine_terms(dtype, op, into, terms);
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
        self.check()?;
        check::peer(self.size(), self.rank, to)?;
        self.shared.send(self.group, self.this(), [self.sending()(to, data)])
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        self.check()?;
        check::exchange(self.size(), self.rank, sends, receives)?;
        let messages = sends.iter().copied().filter(|send| send.0 != self.rank);
        let mut others = receives.iter_mut().filter(|receive| receive.0 != self.rank);
        let mut take_all = || others.try_for_each(|(from, into)| self.take(*from, into));
        // All messages are sent before the rank waits for any, so the receives may wait one after the other.
        if self.emulated.is_some() {
            // There a message is on its way when it has been sent, and its sender does not wait.
            let sending = self.sending();
            let messages: Vec<_> = messages.map(|(to, data)| sending(to, data)).collect();
            self.shared.send(self.group, self.this(), messages)?;
            return take_all();
        }
        let messages = messages.map(|(to, data)| (self.members[to], data));
        self.shared.send_in_place(self.group, self.this(), messages, take_all)
    }

    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        self.check()?;
        let this = self.this();
        flight::post([self.size(), self.rank], self.shared.dropped(this), sends, receives, |mut sends, mut receives| {
            sends.iter_mut().for_each(|(to, _)| *to = self.members[*to]);
            receives.iter_mut().for_each(|(from, _)| *from = self.members[*from]);
            let network = self.emulated.as_ref().map(|emulated| &emulated.network);
            self.shared.post(self.group, this, sends, receives, network)
        })
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        self.check()?;
        // A failure ends all polls, also of flights that are done.
        self.shared.check()?;
        flight::poll(flights, &self.received)
    }

    fn collective(&self, collective: CollectiveCall<'_>) -> Result<()> {
        self.check()?;
        let (size, rank) = (self.size(), self.rank);
        collective.check(size, rank)?;
        if size == 1 {
            return alone::carry_out(collective);
        }
        let received = collective.received(size, rank);
        let collective = match collective {
            CollectiveCall::Headers { tag, header, into } => {
                return self.shared.exchange_headers(self.group, [rank, self.this()], tag, header, into);
            }
            collective => collective,
        };
        if let Some(Emulated { network, collectives: Some(messages) }) = &self.emulated {
            return self.by_messages(messages, network, collective);
        }
        let call = collective.call(rank, &|rank| self.members[rank], |counts| counts.into());
        match collective {
            CollectiveCall::Broadcast(Broadcast::Send(data)) => self.meet_in_place(call, data, |_| {})?,
            CollectiveCall::Broadcast(Broadcast::Receive { root, into }) => {
                self.meet_in_place(call, &[], |contributions| into.copy_from_slice(&contributions.data[root]))?;
            }
            CollectiveCall::AllGather { send, into, .. } => self.meet_in_place(call, send, |contributions| {
                let mut rest = into;
                for data in &contributions.data {
                    let (part, tail) = rest.split_at_mut(data.len());
                    part.copy_from_slice(data);
                    rest = tail;
                }
            })?,
            CollectiveCall::AllToAll { send, into, .. } => self.meet_in_place(call, send, |contributions| {
                let mut rest = into;
                for (data, call) in contributions.data.iter().zip(&contributions.calls) {
                    let Call::AllToAll { send, .. } = call else {
                        panic!("another call got past: this is a bug in polyshard")
                    };
                    let start: usize = send[..rank].iter().sum();
                    let (part, tail) = rest.split_at_mut(send[rank]);
                    part.copy_from_slice(&data[start..start + part.len()]);
                    rest = tail;
                }
            })?,
            CollectiveCall::Reduce { root, data, combining } => {
                let combined = self.combined(call, data, combining.dtype, combining.op)?;
                if rank == root {
                    put_together(&combined, data);
                }
            }
            CollectiveCall::AllReduce { data, combining } => {
                put_together(&self.combined(call, data, combining.dtype, combining.op)?, data);
            }
            CollectiveCall::ReduceScatter { send, into, counts, combining } => {
                let start = counts[..rank].iter().sum();
                self.meet_in_place(call, send, |contributions| {
                    Self::combine(contributions, start, into, combining.dtype, combining.op);
                })?;
            }
            CollectiveCall::Barrier | CollectiveCall::Headers { .. } => {
                self.meet(call, Message::eager(&[]))?;
            }
        }
        self.count(received);
        Ok(())
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(self.divided(color, key)?))
    }

    fn alone(&self) -> Result<Box<dyn Communicator>> {
        self.check()?;
        let members: Arc<[usize]> = [self.this()].into();
        let group = self.shared.lock().add_group(Arc::clone(&members));
        Ok(Box::new(self.part(group, members, 0)))
    }

    fn lane(&self) -> Result<Lane> {
        Ok(Lane::new(self.divided(0, self.rank)?))
    }

    fn count_in_place(&self, bytes: usize) {
        self.received.in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        Ok(match self.emulated {
            Some(_) => Rc::new(Apart { rank: self.rank }),
            None => Rc::new(OneProcess { stranded: Arc::clone(self.shared.stranded()) }),
        })
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

/// Copies the chunks of a result into `into`.
fn put_together(chunks: &[Chunk], into: &mut [u8]) {
    for (chunk, into) in chunks.iter().zip(into.chunks_mut(CHUNK)) {
        into.copy_from_slice(chunk.get().expect("all ranks have combined; this is a bug in polyshard"));
    }
}

impl Drop for ThreadComm {
    fn drop(&mut self) {
        self.shared.leave(self.group);
    }
}
