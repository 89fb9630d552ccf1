//! The waits of this process, recorded by the thread that MPI belongs to and read by the
//! [watchdog](super::watchdog).
//!
//! A record takes a few stores and no lock, so a collective or a message costs no more.
//!
//! ```text
//! words of a collective   1, group, number of the call in the group, number of words of the call, these words, its text
//! words of messages       2, number, bytes to receive, bytes to send, peers: 2 * rank, and 1 more if it is sent to the peer
//! words of a flight       3, as above with the group before the peers, and after each peer the message's number
//! ```
//!
//! A message of a flight arrives once its other side is posted, whatever the other rank does meanwhile, since every call of MPI
//! progresses its messages. So each rank counts its posted messages, by group and peer, and a message is numbered by that count:
//! the other side is posted if the other rank has counted as many.

use super::header;
use super::report::{Place, Posted, Report};
use crate::Work;
use crate::call::Call;
use crate::flight::Noted;
use crate::words::{Operation, messages, within};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Words that describe a wait.
const WORDS: usize = 20;
const COLLECTIVE: u64 = 1;
const MESSAGES: u64 = 2;
const FLIGHT: u64 = 3;

/// Where the words of a call begin, its text, and the peers of messages.
const CALL: usize = 4;
const TEXT: usize = 11;
const PEERS: usize = 4;

/// The record of a process' own waits; never freed.
pub(in crate::mpi) struct Watch {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// How long a rank waits before the wait is reported.
    pub(super) limit: Duration,
    /// Odd while the rank waits.
    turn: AtomicU64,
    words: [AtomicU64; WORDS],
    work: Mutex<Option<Work>>,
    groups: Mutex<Vec<Group>>,
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
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = messages.map(|(rank, is_sent, bytes)| {
            let number = &mut posted[rank][usize::from(is_sent)];
            *number += 1;
            Noted { group: self.id, peer: self.members[rank], is_sent, bytes, number: *number }
        });
        noted.collect()
    }

    /// The counts of posted messages, in the form of reports.
    fn posted(&self) -> Vec<Posted> {
        let posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
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
        // Later records do not become visible before this store.
        fence(Ordering::Release);
    }
}

impl Watch {
    pub(in crate::mpi) fn new(rank: usize, size: usize, limit: Duration) -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Self { rank, size, limit, turn: AtomicU64::new(0), words, work: Mutex::default(), groups: Mutex::default() }
    }

    /// Begins to count the collectives of a group.
    pub(super) fn add(&self, group: &Group) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).push(group.clone());
    }

    /// Forgets a group.
    pub(super) fn remove(&self, group: &Group) {
        self.groups
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|other| !Arc::ptr_eq(&other.calls, &group.calls));
    }

    /// Records that the rank waits for the members of a group to make the same call.
    pub(in crate::mpi) fn meets(&self, group: &Group, call: &Call<'_>) -> Option<Waiting<'_>> {
        if self.is_waiting() {
            return None;
        }
        let number = group.calls.load(Ordering::Relaxed) + 1;
        group.calls.store(number, Ordering::Relaxed);
        let mut nth = CALL;
        let text = header::brief(call, |word| {
            self.words[nth].store(word as u64, Ordering::Relaxed);
            nth += 1;
        });
        self.note(0, [COLLECTIVE, group.id, number, (nth - CALL) as u64]);
        // No byte of a text is 0, so it ends where zeros begin.
        let chunks = text.as_bytes().chunks(8).take(WORDS - TEXT - 1).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        self.note(TEXT, chunks.chain([0]));
        self.waits()
    }

    /// Records that the rank waits for messages: the world ranks of the senders and receivers, and the lengths.
    pub(super) fn messages(
        &self,
        from: impl ExactSizeIterator<Item = (usize, usize)>,
        to: impl ExactSizeIterator<Item = (usize, usize)>,
    ) -> Option<Waiting<'_>> {
        if self.is_waiting() {
            return None;
        }
        let (mut bytes, mut nth) = ([0, 0], PEERS);
        let count = from.len() + to.len();
        let from = from.map(|(rank, bytes)| (rank, bytes, 0));
        for (rank, len, sent) in from.chain(to.map(|(rank, bytes)| (rank, bytes, 1))) {
            bytes[sent] += len;
            if nth < WORDS {
                self.words[nth].store((2 * rank + sent) as u64, Ordering::Relaxed);
                nth += 1;
            }
        }
        self.note(0, [MESSAGES, count as u64, bytes[0] as u64, bytes[1] as u64]);
        self.waits()
    }

    /// Records that the rank waits for a flight.
    pub(in crate::mpi) fn flies(&self, noted: &[Noted]) -> Option<Waiting<'_>> {
        if self.is_waiting() {
            return None;
        }
        let bytes = |sent| noted.iter().filter(|one| one.is_sent == sent).map(|one| one.bytes as u64).sum();
        self.note(0, [FLIGHT, noted.len() as u64, bytes(false), bytes(true)]);
        let group = noted.first().map_or(0, |one| one.group);
        let messages = noted.iter().flat_map(|one| [2 * one.peer as u64 + u64::from(one.is_sent), one.number]);
        self.note(PEERS, [group].into_iter().chain(messages));
        self.waits()
    }

    fn note(&self, first: usize, values: impl IntoIterator<Item = u64>) {
        self.words[first..].iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// Whether the rank is in a wait already: a call within another one is a part of it, and not recorded.
    fn is_waiting(&self) -> bool {
        self.turn.load(Ordering::Relaxed) % 2 == 1
    }

    fn waits(&self) -> Option<Waiting<'_>> {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
        Some(Waiting(self))
    }

    /// Records what the rank is working on.
    pub(in crate::mpi) fn works(&self, work: Option<Work>) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = work;
    }

    /// Returns how often the rank has begun or ended a wait: an odd number while it waits.
    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// Returns the rank's state, as an answer to the question `round`, after a wait of `waited`.
    pub(super) fn report(&self, round: usize, waited: Duration) -> Report {
        let work = *self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let turn = self.turn();
            let words: [u64; WORDS] = std::array::from_fn(|nth| self.words[nth].load(Ordering::Relaxed));
            let calls = groups.iter().map(|group| (group.id, group.calls.load(Ordering::Relaxed))).collect();
            let posted = groups.iter().flat_map(Group::posted).collect();
            fence(Ordering::Acquire);
            // A read during a change is repeated.
            if self.turn() != turn {
                continue;
            }
            let (place, operation) = self.place(&words, &groups);
            let operation = match operation {
                Operation::Waits(wait) => {
                    Operation::Waits(wait + &work.map_or_else(String::new, |work| work.to_string()))
                }
                operation => operation,
            };
            let (place, operation) = match (turn % 2, operation) {
                (1, operation) => (place, operation),
                (_, Operation::Waits(last)) => (Place::Runs, Operation::RunsAfter(last)),
                _ => (Place::Runs, Operation::Runs),
            };
            let waited = waited.as_millis() as usize;
            return Report { round, rank: self.rank, turn: turn as usize, waited, place, calls, posted, operation };
        }
    }

    /// Returns the place that the words describe.
    fn place(&self, words: &[u64; WORDS], groups: &[Group]) -> (Place, Operation) {
        let number = |word: u64| word as usize;
        match words[0] {
            COLLECTIVE => {
                // If the group no longer exists, the call is over.
                let members = groups.iter().find(|group| group.id == words[1]).map(|group| &*group.members);
                let call: Vec<usize> = words[CALL..].iter().take(number(words[3])).copied().map(number).collect();
                let text: Vec<u8> = words[TEXT..].iter().flat_map(|word| word.to_le_bytes()).collect();
                let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
                let operation = match header::of_parts(&call, &String::from_utf8_lossy(text)) {
                    Ok(Call::End) => Operation::Ended,
                    Ok(Call::Exit) => Operation::Left,
                    Ok(call) => Operation::Waits(match members {
                        Some(members) => within(&call.to_string(), members, self.size),
                        None => format!("in {call}"),
                    }),
                    Err(_) => Operation::Waits("in a collective".into()),
                };
                // Both kinds of end count as the same call, and a broadcast and a reduction have their roots here.
                let kind = match call[..] {
                    [12, ..] => [11, 0],
                    [kind @ (1 | 4), root, ..] => [kind, root],
                    [kind, ..] => [kind, 0],
                    [] => [0, 0],
                };
                (
                    Place::Meets {
                        group: words[1],
                        number: words[2],
                        kind,
                        members: members.unwrap_or_default().to_vec(),
                    },
                    operation,
                )
            }
            MESSAGES => {
                let count = number(words[1]);
                let peers: Vec<(usize, bool)> =
                    words[PEERS..].iter().take(count).map(|&word| (number(word) / 2, word % 2 == 1)).collect();
                let ranks = |sent| peers.iter().filter(|peer| peer.1 == sent).map(|peer| peer.0).collect();
                let bytes = [words[2], words[3]].map(number);
                let wait = messages([ranks(false), ranks(true)], bytes, peers.len() < count);
                (Place::Messages { all: peers.len() == count, peers }, Operation::Waits(wait))
            }
            FLIGHT => {
                let count = number(words[1]);
                let words_of = words[PEERS + 1..].chunks_exact(2).take(count);
                let noted: Vec<_> = words_of.map(|pair| (number(pair[0]) / 2, pair[0] % 2 == 1, pair[1])).collect();
                let all = noted.len() == count;
                let ranks = |sent| noted.iter().filter(|one| one.1 == sent).map(|one| one.0).collect();
                let wait = messages([ranks(false), ranks(true)], [words[2], words[3]].map(number), !all);
                (Place::Flies { group: words[PEERS], messages: noted, all }, Operation::Waits(wait))
            }
            _ => (Place::Runs, Operation::Runs),
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
        let waiting = watch.meets(
            &pair,
            &Call::Headers { about: "gather to 2 of f64, and a text that is longer than what is kept of it ä".into() },
        );
        assert!(
            said(&watch)[0].starts_with("waits in gather to 2 of f64, and a text that is longer "),
            "{:?}",
            said(&watch)
        );
        drop(waiting);
        assert_eq!(watch.report(1, Duration::ZERO).calls, [(9, 1)]);
        let waiting = watch.meets(&pair, &Call::Broadcast { root: 3, bytes: 8 });
        assert_eq!(said(&watch)[1], "wait in broadcast from 3 of 8 bytes with ranks 1 and 3");
        let report = watch.report(1, Duration::ZERO);
        let meets = Place::Meets { group: 9, number: 2, kind: [1, 3], members: vec![1, 3] };
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
        assert_eq!(report.place, Place::Flies { group: 9, messages, all: true });
        assert_eq!(report.posted, [Posted { group: 9, peer: 3, counts: [3, 2] }]);
        drop(waiting);
        let noted = pair.note((0..9).map(|_| (1, true, 1)));
        let _waiting = watch.flies(&noted);
        assert!(matches!(watch.report(1, Duration::ZERO).place, Place::Flies { all: false, .. }));
    }

    #[test]
    fn more_peers_than_are_noted_are_not_forgotten() {
        let watch = Watch::new(1, 40, Duration::from_secs(1));
        let _waiting = watch.messages((2..40).map(|rank| (rank, 1)), [].into_iter());
        assert_eq!(said(&watch)[0], "waits to receive 38 bytes from ranks 2 to 17 and others");
        assert!(matches!(watch.report(1, Duration::ZERO).place, Place::Messages { all: false, .. }));
    }
}
