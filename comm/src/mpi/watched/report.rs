//! A rank's report of its state, in a datagram outside MPI.

use super::header::{read, unreadable, with_text};
use crate::Result;
use crate::words::Operation;

/// The state of a rank at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The number of the question that this answers; 0 if it was not asked.
    pub(super) round: usize,
    pub(super) rank: usize,
    /// How often the rank has begun or ended a wait.
    pub(super) turn: usize,
    /// How long it has waited, in milliseconds.
    pub(super) waited: usize,
    pub(super) place: Place,
    /// For each group of the rank, how many collectives it has begun.
    pub(super) calls: Vec<(u64, u64)>,
    /// How many messages of flights it has posted.
    pub(super) posted: Vec<Posted>,
    /// The same as text.
    pub(super) operation: Operation,
}

/// How many messages of flights a rank has posted in a group with a peer, a world rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Posted {
    pub(super) group: u64,
    pub(super) peer: usize,
    /// The messages to receive and those to send.
    pub(super) counts: [u64; 2],
}

/// Where a rank is: enough to know which other ranks must act before it continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not in any of our calls.
    Runs,
    /// In the collective with this number of a group of world ranks; `kind` is the kind of call, and its root.
    Meets { group: u64, number: u64, kind: [usize; 2], members: Vec<usize> },
    /// Waiting for messages: the peers' world ranks, and whether the message is sent to the peer; all of them, or some.
    Messages { peers: Vec<(usize, bool)>, all: bool },
    /// Waiting for a flight of a group: for each message the peer's world rank, whether it is sent to the peer, and its number
    /// among those posted; all of them, or some.
    Flies { group: u64, messages: Vec<(usize, bool, u64)>, all: bool },
}

impl Report {
    pub(super) fn to_bytes(&self, token: u64) -> Vec<u8> {
        let (code, text) = match &self.operation {
            Operation::Runs => (0, ""),
            Operation::Ended => (1, ""),
            Operation::Left => (2, ""),
            Operation::Waits(text) => (3, &text[..]),
            Operation::RunsAfter(text) => (4, &text[..]),
            Operation::Silent => (5, ""),
        };
        let mut words = vec![token as usize, self.round, self.rank, self.turn, self.waited, code];
        match &self.place {
            Place::Runs => words.push(0),
            Place::Meets { group, number, kind, members } => {
                words.extend([1, *group as usize, *number as usize, kind[0], kind[1], members.len()]);
                words.extend(members);
            }
            Place::Messages { peers, all } => {
                words.extend([2, usize::from(*all), peers.len()]);
                words.extend(peers.iter().map(|&(rank, sent)| 2 * rank + usize::from(sent)));
            }
            Place::Flies { group, messages, all } => {
                words.extend([3, usize::from(*all), *group as usize, messages.len()]);
                let both = |&(rank, sent, number): &(usize, bool, u64)| [2 * rank + usize::from(sent), number as usize];
                words.extend(messages.iter().flat_map(both));
            }
        }
        words.push(self.posted.len());
        let posted = |it: &Posted| [it.group as usize, it.peer, it.counts[0] as usize, it.counts[1] as usize];
        words.extend(self.posted.iter().flat_map(posted));
        words.extend(self.calls.iter().flat_map(|&(group, calls)| [group as usize, calls as usize]));
        with_text(&words, text)
    }

    /// Reads a report, if it belongs to the program with this token.
    pub(super) fn from_bytes(bytes: &[u8], token: u64) -> Result<Self> {
        let (words, text) = read(bytes)?;
        let mut words = words.into_iter();
        let mut next = || words.next().ok_or_else(unreadable);
        if next()? as u64 != token {
            return Err(unreadable());
        }
        let [round, rank, turn, waited, code] = [next()?, next()?, next()?, next()?, next()?];
        let operation = match code {
            0 => Operation::Runs,
            1 => Operation::Ended,
            2 => Operation::Left,
            3 => Operation::Waits(text.into()),
            4 => Operation::RunsAfter(text.into()),
            _ => Operation::Silent,
        };
        let place = match next()? {
            0 => Place::Runs,
            1 => {
                let (group, number, kind, count) = (next()? as u64, next()? as u64, [next()?, next()?], next()?);
                let members = (0..count).map(|_| next()).collect::<Result<_>>()?;
                Place::Meets { group, number, kind, members }
            }
            2 => {
                let (all, count) = (next()? == 1, next()?);
                let peers = (0..count).map(|_| next().map(|word| (word / 2, word % 2 == 1))).collect::<Result<_>>()?;
                Place::Messages { peers, all }
            }
            _ => {
                let (all, group, count) = (next()? == 1, next()? as u64, next()?);
                let mut message = || {
                    let (word, number) = (next()?, next()? as u64);
                    Ok((word / 2, word % 2 == 1, number))
                };
                let messages = (0..count).map(|_| message()).collect::<Result<_>>()?;
                Place::Flies { group, messages, all }
            }
        };
        let count = next()?;
        let mut one = || Ok(Posted { group: next()? as u64, peer: next()?, counts: [next()? as u64, next()? as u64] });
        let posted = (0..count).map(|_| one()).collect::<Result<_>>()?;
        let rest: Vec<usize> = words.collect();
        let calls = rest.chunks_exact(2).map(|pair| (pair[0] as u64, pair[1] as u64)).collect();
        Ok(Self { round, rank, turn, waited, place, calls, posted, operation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_back_as_they_were() {
        let places = [
            Place::Runs,
            Place::Meets { group: u64::MAX, number: 7, kind: [1, 2], members: vec![0, 2, 5] },
            Place::Messages { peers: vec![(3, true), (0, false)], all: false },
            Place::Flies { group: 7, messages: vec![(3, true, 9), (0, false, 1 << 40)], all: true },
        ];
        let doings =
            [Operation::Runs, Operation::Waits("in barrier".into()), Operation::RunsAfter("in barrier".into())];
        let doings = doings.into_iter().chain([Operation::Ended]);
        for (place, operation) in places.into_iter().zip(doings) {
            let calls = vec![(0, 9), (u64::MAX, 3)];
            let posted = vec![Posted { group: u64::MAX, peer: 3, counts: [4, 5] }];
            let report = Report { round: 3, rank: 1, turn: 70, waited: 1200, place, calls, posted, operation };
            let bytes = report.to_bytes(u64::MAX - 5);
            assert_eq!(Report::from_bytes(&bytes, u64::MAX - 5).unwrap(), report);
            assert!(Report::from_bytes(&bytes, 5).is_err(), "it is another program's");
            assert!(
                (0..bytes.len() - 20).step_by(8).all(|len| Report::from_bytes(&bytes[..len], u64::MAX - 5).is_err())
            );
        }
    }
}
