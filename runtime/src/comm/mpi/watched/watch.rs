//! Where this process waits, noted by the thread that MPI belongs to and read by the [watchdog](super::watchdog).
//!
//! To note it takes some stores and no lock: a collective or a message costs the same as without.
//!
//! ```text
//! words of a collective   1, group, number of the call in the group, how many words the call has, they, its text
//! words of messages       2, how many, bytes to receive, bytes to send, peers: 2 * rank, and 1 more if it is sent to
//! ```

use super::header;
use super::report::{Place, Report};
use crate::comm::Work;
use crate::comm::call::Call;
use crate::comm::words::{Operation, amount, name, within};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Words that say what a rank waits for.
const WORDS: usize = 20;
const COLLECTIVE: u64 = 1;
const MESSAGES: u64 = 2;

/// Where the words of a call begin, where its text, and where the peers of messages.
const CALL: usize = 4;
const TEXT: usize = 11;
const PEERS: usize = 4;

/// What a process notes of its own waits; there for ever.
pub(in crate::comm::mpi) struct Watch {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// How long a rank waits before that is said.
    pub(super) limit: Duration,
    /// Odd while the rank waits.
    turn: AtomicU64,
    words: [AtomicU64; WORDS],
    work: Mutex<Option<Work>>,
    groups: Mutex<Vec<Group>>,
}

/// A group of ranks whose collectives this process counts.
#[derive(Clone)]
pub(super) struct Group {
    /// The same on all members, and another for each group.
    id: u64,
    /// The world's ranks.
    pub(super) members: Arc<[usize]>,
    /// How many collectives this process has begun in it.
    calls: Arc<AtomicU64>,
}

impl Group {
    pub(super) fn new(id: u64, members: Arc<[usize]>) -> Self {
        Self { id, members, calls: Arc::default() }
    }

    /// The group that the call which has just begun in this one makes of the members that say `which`.
    pub(super) fn divided(&self, which: usize, members: Arc<[usize]>) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.id, self.calls.load(Ordering::Relaxed), which).hash(&mut hasher);
        Self::new(hasher.finish(), members)
    }
}

/// While it is there, the rank waits.
pub(super) struct Waiting<'w>(&'w Watch);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let turn = self.0.turn.load(Ordering::Relaxed);
        self.0.turn.store(turn + 1, Ordering::Release);
        // What is noted next is not seen before that.
        fence(Ordering::Release);
    }
}

impl Watch {
    pub(in crate::comm::mpi) fn new(rank: usize, size: usize, limit: Duration) -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Self { rank, size, limit, turn: AtomicU64::new(0), words, work: Mutex::default(), groups: Mutex::default() }
    }

    /// Counts the collectives of a group from here on.
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

    /// Notes that the rank waits for the members of a group to call the same.
    pub(super) fn meets(&self, group: &Group, call: &Call<'_>) -> Waiting<'_> {
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

    /// Notes that the rank waits for messages: the world's ranks that they come from and go to, and their lengths.
    pub(super) fn messages(
        &self,
        from: impl ExactSizeIterator<Item = (usize, usize)>,
        to: impl ExactSizeIterator<Item = (usize, usize)>,
    ) -> Waiting<'_> {
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

    fn note(&self, first: usize, values: impl IntoIterator<Item = u64>) {
        self.words[first..].iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    fn waits(&self) -> Waiting<'_> {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
        Waiting(self)
    }

    /// Notes what the rank works at.
    pub(super) fn works(&self, work: Option<Work>) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = work;
    }

    /// Returns how often the rank has begun or ended to wait: an odd number while it waits.
    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// Returns what the rank does, as it answers to the question `round` after it has waited for `waited`.
    pub(super) fn report(&self, round: usize, waited: Duration) -> Report {
        let work = *self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let turn = self.turn();
            let words: [u64; WORDS] = std::array::from_fn(|nth| self.words[nth].load(Ordering::Relaxed));
            let calls = groups.iter().map(|group| (group.id, group.calls.load(Ordering::Relaxed))).collect();
            fence(Ordering::Acquire);
            // What was read while it changed is read again.
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
            return Report { round, rank: self.rank, turn: turn as usize, waited, place, calls, operation };
        }
    }

    /// Returns the place that words say.
    fn place(&self, words: &[u64; WORDS], groups: &[Group]) -> (Place, Operation) {
        let number = |word: u64| word as usize;
        match words[0] {
            COLLECTIVE => {
                // A group that is gone is that of a call that is over.
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
                // Ranks come to the end in either way, and a broadcast and a reduction have their roots here.
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
                let clause = |verb: &str, sent: bool, bytes: u64| {
                    let mut ranks: Vec<usize> = peers.iter().filter(|peer| peer.1 == sent).map(|peer| peer.0).collect();
                    ranks.sort_unstable();
                    ranks.dedup();
                    let more = if peers.len() < count { " and others" } else { "" };
                    let direction = if sent { "to" } else { "from" };
                    let said = || format!("to {verb} {} {direction} {}{more}", amount(number(bytes)), name(&ranks));
                    (!ranks.is_empty()).then(said)
                };
                let clauses = [clause("receive", false, words[2]), clause("send", true, words[3])];
                let wait: Vec<String> = clauses.into_iter().flatten().collect();
                (Place::Messages { all: peers.len() == count, peers }, Operation::Waits(wait.join(" and ")))
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
    fn more_peers_than_are_noted_are_not_forgotten() {
        let watch = Watch::new(1, 40, Duration::from_secs(1));
        let _waiting = watch.messages((2..40).map(|rank| (rank, 1)), [].into_iter());
        assert_eq!(said(&watch)[0], "waits to receive 38 bytes from ranks 2 to 17 and others");
        assert!(matches!(watch.report(1, Duration::ZERO).place, Place::Messages { all: false, .. }));
    }
}
