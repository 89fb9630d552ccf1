//! A rank's report of its state, in a datagram outside MPI.

use crate::call::Call;
use crate::words::Operation;
use serde::{Deserialize, Serialize};

/// The state of a rank at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Posted {
    pub(super) group: u64,
    pub(super) peer: usize,
    /// The messages to receive and those to send.
    pub(super) counts: [u64; 2],
}

/// Where a rank is: enough to know which other ranks must act before it continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    /// Not in any of our calls.
    Runs,
    /// In the collective with this number of a group of world ranks.
    Meets { group: u64, number: u64, call: Call, members: Vec<usize> },
    /// Waiting for messages: the peers' world ranks, and whether the message is sent to the peer.
    Messages { peers: Vec<(usize, bool)> },
    /// Waiting for a flight of a group: for each message the peer's world rank, whether it is sent to the peer, and its number
    /// among those posted.
    Flies { group: u64, messages: Vec<(usize, bool, u64)> },
}

impl Report {
    pub(super) fn to_bytes(&self, token: u64) -> Vec<u8> {
        serde_json::to_vec(&(token, self)).expect("a report is plain data: this is a bug in polyshard")
    }

    /// Reads a report, if these bytes are one of the program with this token.
    pub(super) fn from_bytes(bytes: &[u8], token: u64) -> Option<Self> {
        let (of, report): (u64, Self) = serde_json::from_slice(bytes).ok()?;
        (token == of).then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_back_as_they_were() {
        let places = [
            Place::Runs,
            Place::Meets { group: u64::MAX, number: 7, call: Call::Barrier, members: vec![0, 2, 5] },
            Place::Messages { peers: vec![(3, true), (0, false)] },
            Place::Flies { group: 7, messages: vec![(3, true, 9), (0, false, 1 << 40)] },
        ];
        let doings =
            [Operation::Runs, Operation::Waits("in barrier".into()), Operation::RunsAfter("in barrier".into())];
        let doings = doings.into_iter().chain([Operation::Ended]);
        for (place, operation) in places.into_iter().zip(doings) {
            let calls = vec![(0, 9), (u64::MAX, 3)];
            let posted = vec![Posted { group: u64::MAX, peer: 3, counts: [4, 5] }];
            let report = Report { round: 3, rank: 1, turn: 70, waited: 1200, place, calls, posted, operation };
            let bytes = report.to_bytes(u64::MAX - 5);
            assert_eq!(Report::from_bytes(&bytes, u64::MAX - 5), Some(report));
            assert_eq!(Report::from_bytes(&bytes, 5), None, "it is another program's");
            assert!((0..bytes.len()).all(|len| Report::from_bytes(&bytes[..len], u64::MAX - 5).is_none()));
        }
    }
}
