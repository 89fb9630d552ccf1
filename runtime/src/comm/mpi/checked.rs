//! The MPI communicator that finds out what threads find out: collectives called differently, and deadlocks.
//!
//! Before each collective every member tells the group's first rank what it calls, and hears whether all call the
//! same; then the collective runs, and cannot hang any more. Messages are waited for by polling. Whoever waits can be
//! asked where it is ([`watch`]), so that a rank that has waited long learns whether anybody is left to come.
//!
//! ```text
//! rank 0     "barrier"   hears 1 and 2, says "same" to both      MPI_Barrier
//! rank 1     "barrier"   tells 0, waits for 0                    MPI_Barrier
//! rank 2     "barrier"   tells 0, waits for 0                    MPI_Barrier
//! ```
//!
//! All of this has tags of its own or a communicator of its own, so it meets no message of the program. Data travel as
//! in [`MpiCommunicator`], by its methods: results have the same bits, and nothing here is in the way of a program that
//! is not checked.

mod header;
mod watch;

use super::memory::NodeMemory;
use super::poll::{all_done, probe, take};
use super::{MpiCommunicator, TAG, process};
use crate::comm::call::{Call, disagreement};
use crate::comm::words::{Doing, amount, deadlock, name, within};
use crate::comm::{Broadcast, Communicator, Header, Received, SharedMemory, check, checking, exchange_words};
use crate::{DType, Error, ReduceOp, Result};
use mpi::ffi;
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;
use watch::Watch;

const CALL: c_int = 1;
const VERDICT: c_int = 2;

thread_local! {
    /// What this process, on the thread that MPI belongs to, knows of the others; for ever, since a process that ends
    /// must say so.
    static WATCH: Cell<Option<&'static Watch>> = const { Cell::new(None) };
}

/// The world of a program, whose calls are checked or not.
pub(crate) enum Start {
    Plain(Rc<MpiCommunicator>),
    Checked(Rc<Checked>),
}

impl Start {
    /// Returns the world, checked if the program of any process asks for that, or its environment; collective.
    pub(crate) fn new(asked: bool) -> Result<Self> {
        let wanted = checking::limit(asked)?;
        let plain = MpiCommunicator::world()?;
        let plain = match WATCH.get() {
            // Another program of this process was checked, so where the others are can be said from here on.
            Some(watch) => {
                let checked = Checked::world(plain, watch);
                if !is_wanted(&checked, wanted)? {
                    return Ok(Self::Plain(Rc::new(checked.inner)));
                }
                return Ok(Self::Checked(Rc::new(checked)));
            }
            None => plain,
        };
        if !is_wanted(&plain, wanted)? {
            return Ok(Self::Plain(Rc::new(plain)));
        }
        // The least limit of all, so that ranks without one do as the others do.
        let limit = wanted.map_or(u64::MAX, |limit| limit.as_millis() as u64);
        let limit = exchange_words(&plain, "the longest wait", [limit])?
            .iter()
            .fold(u64::MAX, |least, header| least.min(header[0]));
        let comm = process::duplicate(plain.raw)?;
        let watch = Watch::new(comm, plain.rank, plain.size, Duration::from_millis(limit));
        let watch: &'static Watch = Box::leak(Box::new(watch));
        WATCH.set(Some(watch));
        process::before_the_end(leave);
        Ok(Self::Checked(Rc::new(Checked::world(plain, watch))))
    }

    pub(crate) fn comm(&self) -> Rc<dyn Communicator> {
        match self {
            Self::Plain(comm) => Rc::clone(comm) as _,
            Self::Checked(comm) => Rc::clone(comm) as _,
        }
    }

    /// Waits until all ranks have come to the end of the program.
    pub(crate) fn end(&self) -> Result<()> {
        match self {
            Self::Plain(comm) => comm.barrier(),
            Self::Checked(comm) => comm.agree(Call::End),
        }
    }
}

fn is_wanted(comm: &dyn Communicator, wanted: Option<Duration>) -> Result<bool> {
    let headers = exchange_words(comm, "the start of the program", [u64::from(wanted.is_some())])?;
    Ok(headers.iter().any(|header| header[0] != 0))
}

/// Waits until all processes end, if this one has been checked; ends all if others are still at work.
fn leave() {
    let (Some(watch), Some(raw)) = (WATCH.get(), process::known_world()) else { return };
    let members: Vec<usize> = (0..watch.size).collect();
    if let Err(error) = agree(watch, raw, &members, watch.rank, Call::Exit) {
        process::fail(&error.to_string());
    }
}

/// One process' view of a group of MPI processes that check each other.
pub(crate) struct Checked {
    inner: MpiCommunicator,
    /// World ranks of the members, by rank in the group.
    members: Vec<usize>,
    watch: &'static Watch,
}

impl Checked {
    fn world(inner: MpiCommunicator, watch: &'static Watch) -> Self {
        Self { members: (0..inner.size).collect(), inner, watch }
    }

    fn agree(&self, call: Call) -> Result<()> {
        agree(self.watch, self.inner.raw, &self.members, self.inner.rank, call)
    }

    /// Waits until a message from `from` is there.
    fn probe(&self, from: usize, bytes: usize) -> Result<()> {
        let wait = format!("to receive {} from rank {}", amount(bytes), self.members[from]);
        self.watch.wait(Doing::Waits(wait), || probe(self.inner.raw, Some(from), TAG)).map(drop)
    }

    /// Waits until MPI has no more use for the data of the sends that were started.
    fn sent(&self, sends: &[(usize, &[u8])], requests: &mut [ffi::MPI_Request]) -> Result<()> {
        let others = || sends.iter().filter(|send| send.0 != self.inner.rank);
        let bytes = others().map(|send| send.1.len()).sum();
        let mut ranks: Vec<usize> = others().map(|send| self.members[send.0]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        if ranks.is_empty() {
            return Ok(());
        }
        let wait = format!("to send {} to {}", amount(bytes), name(&ranks));
        self.watch.wait(Doing::Waits(wait), || Ok(all_done(requests)?.then_some(())))
    }

    fn root(&self, part: &Broadcast<'_>) -> Result<(usize, usize)> {
        match part {
            Broadcast::Send(data) => Ok((self.inner.rank, data.len())),
            Broadcast::Receive { root, into } => {
                check::root_receives(self.inner.size, self.inner.rank, *root)?;
                Ok((*root, into.len()))
            }
        }
    }
}

/// Tells the group's first rank what this rank calls, and waits until all members have called the same; collective.
fn agree(watch: &Watch, raw: ffi::MPI_Comm, members: &[usize], rank: usize, call: Call) -> Result<()> {
    let size = members.len();
    if size == 1 {
        return Ok(());
    }
    let doing = doing(&call, members, watch.size);
    let verdict = if rank > 0 {
        watch.post(raw, 0, CALL, header::of_call(&call))?;
        let verdict = watch.wait(doing, || take(raw, Some(0), VERDICT))?;
        String::from_utf8_lossy(&verdict.1).into_owned()
    } else {
        let mut calls = vec![None; size];
        calls[0] = Some(call);
        watch.wait(doing, || {
            for (rank, call) in calls.iter_mut().enumerate().filter(|(_, call)| call.is_none()) {
                *call = take(raw, Some(rank), CALL)?.map(|(_, header)| header::to_call(&header)).transpose()?;
            }
            Ok(calls.iter().all(Option::is_some).then_some(()))
        })?;
        let calls: Vec<Call> = calls.into_iter().flatten().collect();
        let verdict = judge(members, &calls, watch.size).unwrap_or_default();
        (1..size).try_for_each(|rank| watch.post(raw, rank, VERDICT, verdict.clone().into_bytes()))?;
        verdict
    };
    if verdict.is_empty() {
        return Ok(());
    }
    process::all_say(&verdict);
    Err(Error::Mismatch(verdict))
}

/// Returns what is wrong if the members of a group do not call the same.
fn judge(members: &[usize], calls: &[Call], world: usize) -> Option<String> {
    let message = disagreement(members, calls)?;
    // Who has come to its end calls nothing: the others wait for it.
    let over = |call: &Call| matches!(call, Call::End | Call::Exit);
    if !calls.iter().any(over) {
        return Some(message);
    }
    Some(deadlock(members.iter().zip(calls).map(|(&rank, call)| (rank, doing(call, members, world)))))
}

/// Returns what a rank does that waits for others to call the same.
fn doing(call: &Call, members: &[usize], world: usize) -> Doing {
    match call {
        Call::End => Doing::Ended,
        Call::Exit => Doing::Left,
        call => Doing::Waits(within(&call.to_string(), members, world)),
    }
}

impl Communicator for Checked {
    fn rank(&self) -> usize {
        self.inner.rank
    }

    fn size(&self) -> usize {
        self.inner.size
    }

    fn world_rank(&self, rank: usize) -> usize {
        self.members[rank]
    }

    fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), to)?;
        self.exchange(&[(to, data)], &mut [])
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), from)?;
        self.probe(from, into.len())?;
        self.inner.receive(from, into)
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        check::exchange(self.size(), self.rank(), sends, receives)?;
        let mut requests = Vec::new();
        let result = self.inner.start_all(sends, &mut [], &mut requests).and_then(|()| {
            // The sends are on their way, so the receives may wait one after the other.
            let others = receives.iter_mut().filter(|receive| receive.0 != self.inner.rank);
            for (from, into) in others {
                self.probe(*from, into.len())?;
                self.inner.receive(*from, into)?;
            }
            self.sent(sends, &mut requests)
        });
        match result {
            // MPI may hold pointers into the caller's buffers.
            Err(error) if !requests.is_empty() => process::fail(&error.to_string()),
            result => result,
        }
    }

    fn broadcast(&self, part: Broadcast<'_>) -> Result<()> {
        let (root, bytes) = self.root(&part)?;
        self.agree(Call::Broadcast { root: self.members[root], bytes })?;
        self.inner.broadcast(part)
    }

    fn all_gather(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        check::counts(self.size(), counts, "into", into.len())?;
        check::own_count(counts[self.rank()], "send", send.len())?;
        self.agree(Call::AllGather { counts: counts.into() })?;
        self.inner.all_gather(send, into, counts)
    }

    fn all_to_all(&self, send: &[u8], send_counts: &[usize], into: &mut [u8], receive_counts: &[usize]) -> Result<()> {
        check::counts(self.size(), send_counts, "send", send.len())?;
        check::counts(self.size(), receive_counts, "into", into.len())?;
        self.agree(Call::AllToAll { send: send_counts.into(), receive: receive_counts.into() })?;
        self.inner.all_to_all(send, send_counts, into, receive_counts)
    }

    fn reduce(&self, root: usize, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::member(self.size(), root)?;
        check::elements(dtype, data)?;
        self.agree(Call::Reduce { root: self.members[root], bytes: data.len(), dtype, op })?;
        self.inner.reduce(root, data, dtype, op)
    }

    fn all_reduce(&self, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::elements(dtype, data)?;
        self.agree(Call::AllReduce { bytes: data.len(), dtype, op })?;
        self.inner.all_reduce(data, dtype, op)
    }

    fn reduce_scatter(&self, send: &[u8], into: &mut [u8], counts: &[usize], dtype: DType, op: ReduceOp) -> Result<()> {
        check::reduce_scatter(self.size(), self.rank(), send, into, counts, dtype)?;
        self.agree(Call::ReduceScatter { counts: counts.into(), dtype, op })?;
        self.inner.reduce_scatter(send, into, counts, dtype, op)
    }

    fn reduce_in_order(&self, root: usize, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::member(self.size(), root)?;
        check::elements(dtype, data)?;
        self.agree(Call::Reduce { root: self.members[root], bytes: data.len(), dtype, op })?;
        self.inner.reduce_in_order(root, data, dtype, op)
    }

    fn all_reduce_in_order(&self, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        check::elements(dtype, data)?;
        self.agree(Call::AllReduce { bytes: data.len(), dtype, op })?;
        self.inner.all_reduce_in_order(data, dtype, op)
    }

    fn reduce_scatter_in_order(
        &self,
        send: &[u8],
        into: &mut [u8],
        counts: &[usize],
        dtype: DType,
        op: ReduceOp,
    ) -> Result<()> {
        check::reduce_scatter(self.size(), self.rank(), send, into, counts, dtype)?;
        self.agree(Call::ReduceScatter { counts: counts.into(), dtype, op })?;
        self.inner.reduce_scatter_in_order(send, into, counts, dtype, op)
    }

    fn barrier(&self) -> Result<()> {
        self.agree(Call::Barrier)
    }

    fn exchange_headers(&self, tag: Cow<'static, str>, header: Header, into: &mut Vec<Header>) -> Result<()> {
        self.agree(Call::Headers { about: tag.clone() })?;
        self.inner.exchange_headers(tag, header, into)
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        self.agree(Call::Split { color, key })?;
        let inner = self.inner.divided(color, key)?;
        let members = (0..inner.size).map(|rank| process::world_rank(inner.raw, rank)).collect();
        Ok(Box::new(Self { inner, members, watch: self.watch }))
    }

    fn fence(&self) -> Result<()> {
        self.agree(Call::Fence)
    }

    fn count_in_place(&self, bytes: usize) {
        self.inner.count_in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        self.agree(Call::SharedMemory)?;
        // Who waits at a board could not be asked where it is.
        Ok(Rc::new(NodeMemory::new(&self.inner, false)?))
    }

    fn received(&self) -> Received {
        self.inner.received()
    }

    fn abort(&self, message: &str) {
        self.inner.abort(message);
    }
}
