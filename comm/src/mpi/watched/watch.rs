//! The waits of this process, recorded by the thread that MPI belongs to and read by the
//! [watchdog](super::watchdog).
//!
//! A record takes a lock, which is free unless a watchdog reads the record, and no memory of its own; the end of a wait takes one store.
//!
//! A message of a flight arrives once its other side is posted, whatever the other rank does meanwhile, since every call of MPI
//! progresses its messages. So each rank counts its posted messages, by group and peer, and a message is numbered by that count:
//! the other side is posted if the other rank has counted as many.

use super::report::{Place, Posted, Report};
use crate::Work;
use crate::call::Call;
use crate::flight::Noted;
use crate::words::{Operation, messages, within};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The record of a process' own waits; never freed.
pub(in crate::mpi) struct Watch {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// How long a rank waits before the wait is reported.
    pub(super) limit: Duration,
    /// Odd while the rank waits.
    turn: AtomicU64,
    /// The present wait, or the last one.
    record: Mutex<Record>,
    work: Mutex<Option<Work>>,
    groups: Mutex<Vec<Group>>,
}

/// What a rank waits for.
#[derive(Default)]
struct Record {
    wait: Wait,
    /// For each message of a wait for some, the peer's world rank, whether it is sent to the peer, and its number in a flight.
    messages: Vec<(usize, bool, u64)>,
    /// Their bytes, to receive and to send.
    bytes: [usize; 2],
}

#[derive(Default)]
enum Wait {
    #[default]
    Nothing,
    /// For the members of a group to make the same call, which has this number in the group.
    Meets {
        group: u64,
        number: u64,
        call: Call,
    },
    Messages,
    Flight {
        group: u64,
    },
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group of ranks whose collectives this process counts.
#[derive(Clone)]
pub(in crate::mpi) struct Group {
    /// The id: the same on all members, and unique to the group.
    id: u64,
    /// The world ranks of the members.
    pub(super) members: Arc<[usize]>,
    /// How many collectives this process has begun in it.
    calls: Arc<AtomicU64>,
    /// How many messages of flights it has posted in it, by member: to receive and to send.
    posted: Arc<Mutex<Vec<[u64; 2]>>>,
}

impl Group {
    pub(super) fn new(id: u64, members: Arc<[usize]>) -> Self {
        let posted = Arc::new(Mutex::new(vec![[0; 2]; members.len()]));
        Self { id, members, calls: Arc::default(), posted }
    }

    /// Counts messages that are posted: the member at the other end, whether it is sent to that member, and the bytes.
    pub(in crate::mpi) fn note(&self, messages: impl Iterator<Item = (usize, bool, usize)>) -> Vec<Noted> {
        let mut posted = lock(&self.posted);
        let noted = messages.map(|(rank, is_sent, bytes)| {
            let number = &mut posted[rank][usize::from(is_sent)];
            *number += 1;
            Noted { group: self.id, peer: self.members[rank], is_sent, bytes, number: *number }
        });
        noted.collect()
    }

    /// The counts of posted messages, in the form of reports.
    fn posted(&self) -> Vec<Posted> {
        let posted = lock(&self.posted);
        let counted = posted.iter().zip(&*self.members).filter(|(counts, _)| **counts != [0; 2]);
        counted.map(|(&counts, &peer)| Posted { group: self.id, peer, counts }).collect()
    }

    /// The group of the members that gave `which` in the split that has just begun in this group.
    pub(super) fn divided(&self, which: usize, members: Arc<[usize]>) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.id, self.calls.load(Ordering::Relaxed), which).hash(&mut hasher);
        Self::new(hasher.finish(), members)
    }
}

/// Marks the rank as waiting until dropped.
pub(in crate::mpi) struct Waiting<'w>(&'w Watch);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let turn = self.0.turn.load(Ordering::Relaxed);
        self.0.turn.store(turn + 1, Ordering::Release);
    }
}

impl Watch {
    pub(in crate::mpi) fn new(rank: usize, size: usize, limit: Duration) -> Self {
        let (turn, record, work, groups) = Default::default();
        Self { rank, size, limit, turn, record, work, groups }
    }

    /// Begins to count the collectives of a group.
    pub(super) fn add(&self, group: &Group) {
        lock(&self.groups).push(group.clone());
    }

    /// Forgets a group.
    pub(super) fn remove(&self, group: &Group) {
        lock(&self.groups).retain(|other| !Arc::ptr_eq(&other.calls, &group.calls));
    }

    /// Records that the rank waits for the members of a group to make the same call. A call within another one is a part of it, and
    /// not recorded.
    pub(in crate::mpi) fn meets(&self, group: &Group, call: Call) -> Option<Waiting<'_>> {
        self.waits(|record| {
            let number = group.calls.load(Ordering::Relaxed) + 1;
            group.calls.store(number, Ordering::Relaxed);
            record.wait = Wait::Meets { group: group.id, number, call };
        })
    }

    /// Records that the rank waits for messages: the world ranks of the senders and receivers, and the lengths.
    pub(super) fn messages(
        &self,
        from: impl Iterator<Item = (usize, usize)>,
        to: impl Iterator<Item = (usize, usize)>,
    ) -> Option<Waiting<'_>> {
        let from = from.map(|(rank, bytes)| (rank, false, 0, bytes));
        self.exchanges(Wait::Messages, from.chain(to.map(|(rank, bytes)| (rank, true, 0, bytes))))
    }

    /// Records that the rank waits for a flight.
    pub(in crate::mpi) fn flies(&self, noted: &[Noted]) -> Option<Waiting<'_>> {
        let group = noted.first().map_or(0, |one| one.group);
        self.exchanges(Wait::Flight { group }, noted.iter().map(|one| (one.peer, one.is_sent, one.number, one.bytes)))
    }

    fn exchanges(&self, wait: Wait, messages: impl Iterator<Item = (usize, bool, u64, usize)>) -> Option<Waiting<'_>> {
        self.waits(|record| {
            (record.wait, record.bytes) = (wait, [0, 0]);
            record.messages.clear();
            for (peer, is_sent, number, bytes) in messages {
                record.messages.push((peer, is_sent, number));
                record.bytes[usize::from(is_sent)] += bytes;
            }
        })
    }

    /// Begins a wait, unless the rank is in one already.
    fn waits(&self, note: impl FnOnce(&mut Record)) -> Option<Waiting<'_>> {
        let turn = self.turn.load(Ordering::Relaxed);
        if turn % 2 == 1 {
            return None;
        }
        let mut record = lock(&self.record);
        note(&mut record);
        self.turn.store(turn + 1, Ordering::Release);
        Some(Waiting(self))
    }

    /// Records what the rank is working on.
    pub(in crate::mpi) fn works(&self, work: Option<Work>) {
        *lock(&self.work) = work;
    }

    /// Returns how often the rank has begun or ended a wait: an odd number while it waits.
    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// Returns the rank's state, as an answer to the question `round`, after a wait of `waited`.
    pub(super) fn report(&self, round: usize, waited: Duration) -> Report {
        let (work, groups, record) = (*lock(&self.work), lock(&self.groups), lock(&self.record));
        let calls = groups.iter().map(|group| (group.id, group.calls.load(Ordering::Relaxed))).collect();
        let posted = groups.iter().flat_map(Group::posted).collect();
        // No wait begins meanwhile. So if the rank waits now, it has done so all the time, and all that has been read is of this wait.
        let turn = self.turn();
        let (place, operation) = record.place(&groups, self.size);
        let operation = match operation {
            Operation::Waits(wait) => {
                let wait = wait + &work.map_or_else(String::new, |work| work.to_string());
                if turn % 2 == 1 { Operation::Waits(wait) } else { Operation::RunsAfter(wait) }
            }
            operation if turn % 2 == 1 => operation,
            _ => Operation::Runs,
        };
        let place = if turn % 2 == 1 { place } else { Place::Runs };
        let waited = waited.as_millis() as usize;
        Report { round, rank: self.rank, turn: turn as usize, waited, place, calls, posted, operation }
    }
}

impl Record {
    /// Returns what is recorded, in the form of reports, for ranks of a world of `size`.
    fn place(&self, groups: &[Group], size: usize) -> (Place, Operation) {
        let ranks = |sent| self.messages.iter().filter(|one| one.1 == sent).map(|one| one.0).collect();
        let wait = || Operation::Waits(messages([ranks(false), ranks(true)], self.bytes));
        match &self.wait {
            Wait::Nothing => (Place::Runs, Operation::Runs),
            &Wait::Meets { group, number, ref call } => {
                // If the group no longer exists, the call is over.
                let members = groups.iter().find(|known| known.id == group).map(|known| &*known.members);
                let operation = match (call, members) {
                    (Call::End, _) => Operation::Ended,
                    (Call::Exit, _) => Operation::Left,
                    (call, Some(members)) => Operation::Waits(within(&call.to_string(), members, size)),
                    (call, None) => Operation::Waits(format!("in {call}")),
                };
                let members = members.unwrap_or_default().to_vec();
                (Place::Meets { group, number, call: call.clone(), members }, operation)
            }
            Wait::Messages => {
                (Place::Messages { peers: self.messages.iter().map(|one| (one.0, one.1)).collect() }, wait())
            }
            &Wait::Flight { group } => (Place::Flies { group, messages: self.messages.clone() }, wait()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(watch: &Watch) -> [String; 2] {
        watch.report(1, Duration::ZERO).operation.clause()
    }

    #[test]
    fn what_is_noted_is_said_while_it_lasts_and_afterwards() {
        let watch = Watch::new(1, 4, Duration::from_secs(1));
        let pair = Group::new(9, [1, 3].into());
        watch.add(&pair);
        assert_eq!(said(&watch)[0], "runs");
        let waiting = watch.meets(&pair, Call::Headers { about: "gather to 2 of f64".into() });
        assert_eq!(said(&watch)[0], "waits in gather to 2 of f64 with ranks 1 and 3");
        assert!(watch.meets(&pair, Call::Barrier).is_none(), "a call within another one");
        drop(waiting);
        assert_eq!(watch.report(1, Duration::ZERO).calls, [(9, 1)]);
        let waiting = watch.meets(&pair, Call::Broadcast { root: 3, bytes: 8 });
        assert_eq!(said(&watch)[1], "wait in broadcast from 3 of 8 bytes with ranks 1 and 3");
        let report = watch.report(1, Duration::ZERO);
        let meets =
            Place::Meets { group: 9, number: 2, call: Call::Broadcast { root: 3, bytes: 8 }, members: vec![1, 3] };
        assert_eq!((report.place, report.turn), (meets, 3));
        drop(waiting);
        assert_eq!(said(&watch)[0], "runs, after it was in broadcast from 3 of 8 bytes with ranks 1 and 3");
        watch.remove(&pair);
        assert_eq!(said(&watch)[0], "runs, after it was in broadcast from 3 of 8 bytes");
        let _waiting = watch.messages([(0, 8), (2, 8)].into_iter(), [(2, 1)].into_iter());
        assert_eq!(said(&watch)[0], "waits to receive 16 bytes from ranks 0 and 2 and to send 1 byte to rank 2");
    }

    #[test]
    fn messages_of_flights_have_numbers_by_group_and_peer() {
        let watch = Watch::new(1, 4, Duration::from_secs(1));
        let pair = Group::new(9, [1, 3].into());
        watch.add(&pair);
        pair.note([(1, true, 5), (1, false, 6)].into_iter());
        let noted = pair.note([(1, false, 8), (1, false, 8), (1, true, 1)].into_iter());
        let waiting = watch.flies(&noted);
        assert_eq!(said(&watch)[0], "waits to receive 16 bytes from rank 3 and to send 1 byte to rank 3");
        let report = watch.report(1, Duration::ZERO);
        let messages = vec![(3, false, 2), (3, false, 3), (3, true, 2)];
        assert_eq!(report.place, Place::Flies { group: 9, messages });
        assert_eq!(report.posted, [Posted { group: 9, peer: 3, counts: [3, 2] }]);
        drop(waiting);
    }

    #[test]
    fn all_peers_are_noted() {
        let watch = Watch::new(1, 40, Duration::from_secs(1));
        let _waiting = watch.messages((2..40).map(|rank| (rank, 1)), [].into_iter());
        assert_eq!(said(&watch)[0], "waits to receive 38 bytes from ranks 2 to 39");
        let peers = (2..40).map(|rank| (rank, false)).collect();
        assert_eq!(watch.report(1, Duration::ZERO).place, Place::Messages { peers });
    }
}
