//! The state that all ranks of a world of threads share: their waits, messages in flight, and arrivals at collectives.
//!
//! One lock guards it all. A rank that cannot continue records its wait and sleeps; the rank that fulfils the
//! wait marks it running before waking it. So the count of idle ranks is exact, and when the last rank blocks
//! or ends while one still waits, nothing can arrive any more: that is a deadlock.
//! Tests: `runtime/tests/it/comm_threads.rs`.

use super::super::call::Call;
use super::super::flight::Dropped;
use super::super::words::deadlock;
use super::super::{Header, Stranded};
use super::arrivals::{Arrivals, Brings, Contributions, Round};
use super::failure::Failure;
use super::group::{GroupId, Membership, divide};
use super::message::Message;
use super::posted::{Link, Pending, Progress};
use crate::{Error, Result};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A world of threads. All rank numbers here are world ranks, unless a group is named with them.
pub struct Shared {
    state: Mutex<State>,
    /// One per rank, so that a message wakes only its receiver.
    pub(super) wake: Vec<Condvar>,
    /// Whether a rank has failed, for frequent checks.
    failed: Arc<AtomicBool>,
    /// By rank.
    dropped: Vec<Arc<Dropped>>,
    /// Memory that ranks must not free themselves; the last of them does.
    stranded: Arc<Mutex<Vec<Stranded>>>,
    /// For ranks that wait at a fence or withdraw messages; few do at the same time, so all groups share it.
    fence: Condvar,
}

pub(super) struct State {
    pub(super) ranks: Vec<Rank>,
    /// The number of ranks that wait or have ended.
    idle: usize,
    pub(super) groups: HashMap<GroupId, Arrivals>,
    /// The id of the next group.
    next_group: GroupId,
    failure: Option<Failure>,
    failed: Arc<AtomicBool>,
    /// Non-blocking messages of which one side has been posted.
    pub(super) flights: HashMap<Link, Pending>,
}

pub(super) struct Rank {
    pub(super) status: Status,
    /// Whether its wait was ended by a failure, and not fulfilled.
    interrupted: bool,
    /// Messages that have been sent to this rank, by group and sender, and when each arrives on the emulated machine, if there is one.
    pub(super) inbox: HashMap<(GroupId, usize), VecDeque<(Message, f64)>>,
    /// The number of this rank's messages to be read in place that have not been read.
    unread: usize,
    /// The contributions of the collective that has just ended the rank's wait.
    contributions: Option<Arc<Contributions>>,
}

pub(super) enum Status {
    Running,
    Receives {
        group: GroupId,
        from: usize,
        bytes: usize,
    },
    /// `rank` is the rank in the group.
    Meets {
        group: GroupId,
        rank: usize,
    },
    /// It waits until its messages have been read.
    Sends,
    /// It waits for a flight with these receives and sends: the other rank and the bytes.
    Flies {
        progress: Arc<Progress>,
        peers: [Vec<(usize, usize)>; 2],
    },
    Ended,
}

impl Shared {
    /// Returns a world of `size` ranks, all of them running.
    pub fn new(size: usize) -> Self {
        let rank = |_| Rank {
            status: Status::Running,
            interrupted: false,
            inbox: HashMap::new(),
            unread: 0,
            contributions: None,
        };
        let world = Arrivals::new((0..size).collect());
        let failed = Arc::<AtomicBool>::default();
        let state = State {
            ranks: (0..size).map(rank).collect(),
            idle: 0,
            groups: HashMap::from([(GroupId::WORLD, world)]),
            next_group: GroupId::WORLD.next(),
            failure: None,
            failed: Arc::clone(&failed),
            flights: HashMap::new(),
        };
        let wake = (0..size).map(|_| Condvar::new()).collect();
        let dropped = (0..size).map(|_| Arc::default()).collect();
        Self { state: Mutex::new(state), wake, failed, dropped, stranded: Arc::default(), fence: Condvar::new() }
    }

    /// The memory that the last rank frees.
    pub(super) fn stranded(&self) -> &Arc<Mutex<Vec<Stranded>>> {
        &self.stranded
    }

    pub(super) fn size(&self) -> usize {
        self.wake.len()
    }

    /// Returns the first failure, if there was one.
    pub fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    /// Checks whether a rank has failed, for ranks that wait for something else.
    ///
    /// # Errors
    /// The error that a rank would get that waits here.
    pub fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { self.lock().check_failure() } else { Ok(()) }
    }

    /// Returns whether `rank` has dropped a flight that was not done.
    pub(crate) fn dropped(&self, rank: usize) -> &Arc<Dropped> {
        &self.dropped[rank]
    }

    /// Ends all waits with `failure`; a later failure can only lower the rank that is named, if its message is the same.
    pub fn fail(&self, failure: Failure) {
        self.lock().fail(failure, &self.wake);
    }

    /// Records that the thread of `rank` has ended.
    pub fn end(&self, rank: usize) {
        let mut state = self.lock();
        state.ranks[rank].status = Status::Ended;
        state.idle += 1;
        if let Err(error) = self.dropped[rank].check(|| rank) {
            state.fail(Failure::Error { rank, message: error.to_string() }, &self.wake);
        }
        // A rank that polls for a message that this rank has not posted would poll for ever.
        if let Some(message) = state.unmatched(rank) {
            state.fail(Failure::Mismatch(message), &self.wake);
        }
        state.check_deadlock(&self.wake);
    }

    /// Delivers messages of `from` to the ranks they are paired with.
    pub(super) fn send(
        &self,
        group: GroupId,
        from: usize,
        messages: impl IntoIterator<Item = (usize, Message, f64)>,
    ) -> Result<()> {
        let mut state = self.lock();
        state.check_failure()?;
        for (to, message, arrives) in messages {
            state.ranks[from].unread += usize::from(message.is_borrowed());
            let rank = &mut state.ranks[to];
            rank.inbox.entry((group, from)).or_default().push_back((message, arrives));
            if matches!(rank.status, Status::Receives { group: g, from: f, .. } if (g, f) == (group, from)) {
                state.resume(to, &self.wake);
            }
        }
        Ok(())
    }

    /// Waits for the next message from `from` to `this`, which expects `bytes`.
    pub(super) fn receive(&self, group: GroupId, this: usize, from: usize, bytes: usize) -> Result<(Message, f64)> {
        let mut state = self.lock();
        state.check_failure()?;
        if state.ranks[this].inbox.get(&(group, from)).is_none_or(VecDeque::is_empty) {
            state = self.wait(state, this, Status::Receives { group, from, bytes })?;
        }
        match state.ranks[this].inbox.get_mut(&(group, from)).and_then(VecDeque::pop_front) {
            Some(message) => Ok(message),
            // The sender has withdrawn it because of a failure.
            None => Err(state.failed()),
        }
    }

    /// Records that a message of `from` has been read in place.
    pub(super) fn was_read(&self, from: usize) {
        let mut state = self.lock();
        state.ranks[from].unread -= 1;
        if state.ranks[from].unread == 0 {
            match state.ranks[from].status {
                Status::Sends => state.resume(from, &self.wake),
                _ => self.fence.notify_all(),
            }
        }
    }

    /// Waits until all messages of `this` have been read.
    pub(super) fn wait_until_read(&self, this: usize) -> Result<()> {
        let state = self.lock();
        state.check_failure()?;
        if state.ranks[this].unread > 0 {
            drop(self.wait(state, this, Status::Sends)?);
        }
        Ok(())
    }

    /// Withdraws the messages of `this` that no rank has begun to read, and waits for the ranks that have,
    /// whatever else happens.
    pub(super) fn withdraw(&self, this: usize) {
        let mut state = self.lock();
        let inboxes = state.ranks.iter_mut().flat_map(|rank| &mut rank.inbox);
        let queues = inboxes.filter(|((_, from), _)| *from == this);
        let unread: usize = queues
            .map(|(_, queue)| {
                let before = queue.len();
                queue.retain(|(message, _)| !message.is_borrowed());
                before - queue.len()
            })
            .sum();
        state.ranks[this].unread -= unread;
        while state.ranks[this].unread > 0 {
            state = self.fence.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Contributes `call` and `data` to the group's next collective and waits until all members have arrived.
    ///
    /// `rank` is the rank in the group, `this` the world rank.
    pub(super) fn meet(
        &self,
        group: GroupId,
        rank: usize,
        this: usize,
        call: Call,
        data: Message,
    ) -> Result<Arc<Contributions>> {
        let mut state = self.arrive(group, [rank, this], call, Brings::Data(data))?;
        let contributions = state.ranks[this].contributions.take();
        Ok(contributions.expect("a rank left a collective that was not over: this is a bug in polyshard"))
    }

    /// Contributes a header to the group's next collective, waits until all members have, and reads the headers of all;
    /// allocates nothing if `into` has room.
    pub(super) fn exchange_headers(
        &self,
        group: GroupId,
        place: [usize; 2],
        tag: Cow<'static, str>,
        header: Header,
        into: &mut Vec<Header>,
    ) -> Result<()> {
        let mut state = self.arrive(group, place, Call::Headers { about: tag }, Brings::Header(header))?;
        // The next exchange cannot complete before this rank has arrived at it.
        into.clear();
        into.extend_from_slice(state.arrivals(group).headers());
        Ok(())
    }

    /// Takes part in the group's next collective, and waits until all members have arrived.
    ///
    /// A collective at which all have arrived is over for all of them: a later failure affects none.
    fn arrive(
        &self,
        group: GroupId,
        [rank, this]: [usize; 2],
        call: Call,
        brings: Brings,
    ) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        state.check_failure()?;
        let arrivals = state.arrivals(group);
        let members = Arc::clone(&arrivals.members);
        let contributions = match arrivals.arrive(rank, call, brings) {
            Ok(Some(Round::Data(contributions))) => Some(Arc::new(state.divide(contributions, &members))),
            Ok(Some(Round::Headers)) => None,
            Ok(None) => return self.wait(state, this, Status::Meets { group, rank }),
            Err(message) => {
                state.fail(Failure::Mismatch(message), &self.wake);
                return Err(state.failed());
            }
        };
        for &member in &*members {
            state.ranks[member].contributions.clone_from(&contributions);
            if member != this {
                state.resume(member, &self.wake);
            }
        }
        Ok(state)
    }

    /// Waits until all members of `group` have called this, whatever else happens.
    ///
    /// Failures do not end the wait: every member that others wait for here will still call this, and cannot
    /// fail before. A rank that waits here counts as running, so that it is not part of a deadlock.
    pub(super) fn fence(&self, group: GroupId) {
        let mut state = self.lock();
        let before = state.arrivals(group).fences();
        if state.arrivals(group).fence() {
            self.fence.notify_all();
            return;
        }
        while state.arrivals(group).fences() == before {
            state = self.fence.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records that one member of `group` has dropped its communicator.
    pub(super) fn leave(&self, group: GroupId) {
        let mut state = self.lock();
        let Some(collective) = state.groups.get_mut(&group) else { return };
        collective.alive -= 1;
        if collective.alive == 0 {
            state.groups.remove(&group);
            for rank in &mut state.ranks {
                rank.inbox.retain(|key, _| key.0 != group);
            }
            state.flights.retain(|key, _| key.0 != group);
        }
    }

    pub(super) fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        this: usize,
        status: Status,
    ) -> Result<MutexGuard<'a, State>> {
        state.ranks[this].status = status;
        state.idle += 1;
        state.check_deadlock(&self.wake);
        while !matches!(state.ranks[this].status, Status::Running) {
            state = self.wake[this].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // A failure after the wait was fulfilled will be seen by the next call.
        match std::mem::take(&mut state.ranks[this].interrupted) {
            true => Err(state.failed()),
            false => Ok(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug in this module; the other ranks must still learn of the failure.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn check_failure(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.to_waiting()))
    }

    /// The error of the failure for a rank that waits or would.
    pub(super) fn failed(&self) -> Error {
        self.failure.as_ref().expect("a wait ended without its end: this is a bug in polyshard").to_waiting()
    }

    fn arrivals(&mut self, group: GroupId) -> &mut Arrivals {
        self.groups.get_mut(&group).expect("a group is gone before its members: this is a bug in polyshard")
    }

    pub(super) fn resume(&mut self, rank: usize, wake: &[Condvar]) {
        self.ranks[rank].status = Status::Running;
        self.idle -= 1;
        wake[rank].notify_one();
    }

    pub(super) fn fail(&mut self, failure: Failure, wake: &[Condvar]) {
        if let Some(first) = &mut self.failure {
            return first.merge(&failure);
        }
        self.failure = Some(failure);
        self.failed.store(true, Ordering::Release);
        for rank in 0..self.ranks.len() {
            if !matches!(self.ranks[rank].status, Status::Running | Status::Ended) {
                self.ranks[rank].interrupted = true;
                self.resume(rank, wake);
            }
        }
    }

    fn check_deadlock(&mut self, wake: &[Condvar]) {
        // As long as a rank runs, the others are not checked.
        if self.idle < self.ranks.len() {
            return;
        }
        if self.ranks.iter().any(|rank| !matches!(rank.status, Status::Running | Status::Ended)) {
            let message = deadlock((0..self.ranks.len()).map(|rank| (rank, self.operation(rank))));
            self.fail(Failure::Mismatch(message), wake);
        }
    }

    /// Adds a group with these members, world ranks.
    pub(super) fn add_group(&mut self, members: Arc<[usize]>) -> GroupId {
        let group = self.next_group;
        self.next_group = group.next();
        self.groups.insert(group, Arrivals::new(members));
        group
    }

    /// Makes the groups of a split, and gives each member its place.
    fn divide(&mut self, mut contributions: Contributions, members: &[usize]) -> Contributions {
        if !matches!(contributions.calls[0], Call::Split { .. }) {
            return contributions;
        }
        let mut memberships: Vec<Option<Membership>> = vec![None; members.len()];
        for ranks in divide(&contributions.calls) {
            let world: Arc<[usize]> = ranks.iter().map(|&rank| members[rank]).collect();
            let group = self.add_group(Arc::clone(&world));
            for (place, &rank) in ranks.iter().enumerate() {
                memberships[rank] = Some(Membership { group, members: Arc::clone(&world), rank: place });
            }
        }
        contributions.memberships = memberships.into_iter().flatten().collect();
        contributions
    }
}
