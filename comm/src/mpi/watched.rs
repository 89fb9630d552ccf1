//! The communicator of programs on MPI: each call is recorded, so that a rank that waits long can report where, and
//! compared with those of the others in checked programs.
//!
//! Recording a call costs a few stores ([`watch`]). A thread of each process reads the records, and finds out with those of
//! the other processes which ranks are missing ([`watchdog`], [`verdict`]). In a checked program all members of a group agree
//! on their calls before each collective ([`agreement`]).
//!
//! Data are sent by the methods of [`MpiCommunicator`]: results have the same bits.

mod agreement;
mod header;
mod lane;
mod memory;
mod report;
mod verdict;
pub(super) mod watch;
pub(super) mod watchdog;

use super::memory::NodeMemory;
use super::{Handed, MpiCommunicator, process};
use crate::call::Call;
use crate::{
    Carrier, CollectiveCall, Communicator, Flight, Lane, Layout, Piece, Received, Result, SharedMemory, Work, check,
    exchange_words,
};
use agreement::Agreement;
use lane::WatchedLane;
use memory::WatchedMemory;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use watch::{Group, Waiting, Watch};

/// The ids of groups that all programs have: all ranks in a program, all ranks at its end, and all ranks at the mailbox of a node.
const WORLD: u64 = 0;
const ENDS: u64 = 1;
const BOARD: u64 = 2;

/// One process' view of a group of MPI processes, under watch.
pub(crate) struct Watched {
    lane: WatchedLane,
    /// How calls are compared, in a checked program.
    agreement: Option<Rc<Agreement>>,
}

impl Watched {
    /// All processes, in a program.
    pub(super) fn world(inner: MpiCommunicator, watch: &'static Watch) -> Self {
        Self::new(inner, WORLD, watch)
    }

    /// All processes, at their end.
    pub(super) fn ends(inner: MpiCommunicator, watch: &'static Watch) -> Self {
        Self::new(inner, ENDS, watch)
    }

    fn new(inner: MpiCommunicator, id: u64, watch: &'static Watch) -> Self {
        let group = Group::new(id, (0..inner.size).collect());
        Self { lane: WatchedLane::new(inner, group, watch), agreement: None }
    }

    /// Returns this rank's part of the group, as a group for flights only; see [`Communicator::split`].
    fn divided(&self, color: usize, key: usize) -> Result<WatchedLane> {
        let _waiting = self.call(&Call::Split { color, key })?;
        let inner = self.lane.inner.divided(color, key)?;
        let members = (0..inner.size).map(|rank| process::world_rank(inner.raw(), rank)).collect();
        Ok(WatchedLane::new(inner, self.lane.group.divided(color, members), self.lane.watch))
    }

    /// Records this rank's call, and in a checked program agrees on it with the others.
    fn call(&self, call: &Call<'_>) -> Result<Waiting<'static>> {
        process::check_flights()?;
        let waiting = self.lane.watch.meets(&self.lane.group, call);
        if let Some(agreement) = &self.agreement {
            agreement.reach(&self.lane.inner, &self.lane.group.members, self.lane.watch.size, call)?;
        }
        Ok(waiting)
    }

    /// Waits until all processes have reached an end, of this program or of the process, as `call` for this one; collective
    /// over [`ends`](Self::ends). Returns the ranks whose call differs.
    pub(super) fn end(&self, call: &Call<'_>) -> Result<Vec<usize>> {
        let _waiting = self.lane.watch.meets(&self.lane.group, call);
        let own = u64::from(*call == Call::Exit);
        let headers = exchange_words(&self.lane.inner, "the end of a program", [own])?;
        Ok((0..headers.len()).filter(|&rank| headers[rank][0] != own).collect())
    }

    /// As `end`, in a checked program, where a rank that calls something else meanwhile gets an error.
    pub(super) fn agree_to_end(&self) -> Result<()> {
        self.call(&Call::End).map(drop)
    }

    /// Returns the same communicator, which compares calls.
    pub(super) fn checked(mut self) -> Self {
        self.agreement = Some(Rc::default());
        self
    }

    fn compares(&self) -> bool {
        self.agreement.is_some()
    }
}

impl Communicator for Watched {
    fn rank(&self) -> usize {
        self.lane.inner.rank
    }

    fn size(&self) -> usize {
        self.lane.inner.size
    }

    fn world_rank(&self, rank: usize) -> usize {
        self.lane.group.members[rank]
    }

    fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), to)?;
        let _waiting =
            self.lane.watch.messages([].into_iter(), [(self.lane.group.members[to], data.len())].into_iter());
        self.lane.inner.send(to, data)
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        check::peer(self.size(), self.rank(), from)?;
        let _waiting =
            self.lane.watch.messages([(self.lane.group.members[from], into.len())].into_iter(), [].into_iter());
        self.lane.inner.receive(from, into)
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        check::exchange(self.size(), self.rank(), sends, receives)?;
        let members = &self.lane.group.members;
        let from = receives.iter().map(|(from, into)| (members[*from], into.len()));
        let _waiting = self.lane.watch.messages(from, sends.iter().map(|(to, data)| (members[*to], data.len())));
        self.lane.inner.exchange(sends, receives)
    }

    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        self.lane.post(sends, receives)
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        self.lane.poll(flights)
    }

    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        self.lane.wait(flights)
    }

    fn collective(&self, collective: CollectiveCall<'_>) -> Result<()> {
        let (size, rank) = (self.size(), self.rank());
        collective.check(size, rank)?;
        let _waiting = self.call(&collective.call(rank, &|rank| self.lane.group.members[rank], Cow::Borrowed))?;
        // Ranks that have agreed have already waited for each other.
        match collective {
            CollectiveCall::Barrier if self.compares() => Ok(()),
            collective => self.lane.inner.collective(collective),
        }
    }

    fn all_to_all_laid_out(
        &self,
        sends: &[Option<Layout>],
        data: &[u8],
        receives: &[Option<Layout>],
        into: &mut [u8],
    ) -> Result<bool> {
        if self.compares() {
            // The counts that are compared are those of contiguous buffers.
            return Ok(false);
        }
        let _waiting = self.call(&Call::AllToAll { send: (&[]).into(), receive: (&[]).into() })?;
        self.lane.inner.all_to_all_laid_out(sends, data, receives, into)
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(Self { lane: self.divided(color, key)?, agreement: self.agreement.clone() }))
    }

    fn lane(&self) -> Result<Lane> {
        Ok(Lane::new(Handed(self.divided(0, self.rank())?)))
    }

    fn note(&self, work: Option<Work>) {
        self.lane.watch.works(work);
    }

    fn is_checked(&self) -> bool {
        self.compares()
    }

    fn count_in_place(&self, bytes: usize) {
        self.lane.inner.count_in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        let _waiting = self.call(&Call::SharedMemory)?;
        // Calls at a mailbox are not compared.
        let inner = NodeMemory::new(&self.lane.inner, !self.compares())?;
        let group = Group::new(BOARD, self.lane.group.members.clone());
        self.lane.watch.add(&group);
        Ok(Rc::new(WatchedMemory { inner, watch: self.lane.watch, group }))
    }

    fn received(&self) -> Received {
        self.lane.inner.received()
    }

    fn abort(&self, message: &str) {
        self.lane.inner.abort(message);
    }
}
