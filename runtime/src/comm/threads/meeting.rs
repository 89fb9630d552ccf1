//! Meetings: how the ranks of a group come together in a collective.
//!
//! A meeting collects one call and one contribution per rank. The last to arrive turns it into a
//! [`Round`], which all ranks then read without the lock.

use super::super::call::{Call, disagreement};
use super::group::Seat;
use super::message::Message;
use std::sync::{Arc, OnceLock};

/// Bytes of a reduction that one rank combines at a time: a multiple of every element's size.
pub(super) const CHUNK: usize = 1 << 16;

/// A part of the result of a reduction.
pub(super) type Chunk = OnceLock<Vec<u8>>;

/// What all ranks brought to a collective, by rank in the group.
pub(super) struct Round {
    pub(super) calls: Vec<Call>,
    pub(super) data: Vec<Message>,
    /// Chunks of the result of a reduction, each combined by the rank that comes to it first.
    pub(super) combined: Arc<[Chunk]>,
    /// After a split, each rank's place in its new group.
    pub(super) seats: Vec<Seat>,
}

/// The meeting place of one group.
pub(super) struct Meeting {
    /// World ranks of the members, by rank in the group.
    pub(super) members: Arc<[usize]>,
    /// Members that have not dropped their communicator.
    pub(super) seated: usize,
    present: Vec<Option<(Call, Message)>>,
    arrived: usize,
    /// Members that wait for the others to settle, and how often all of them have.
    settling: usize,
    settled: u64,
}

impl Meeting {
    /// Returns the meeting place of a new group.
    pub(super) fn new(members: Arc<[usize]>) -> Self {
        let size = members.len();
        Self { members, seated: size, present: vec![None; size], arrived: 0, settling: 0, settled: 0 }
    }

    /// Adds what `rank` brings; returns the round if it was the last to arrive.
    ///
    /// # Errors
    /// What each rank called, if they do not call the same.
    pub(super) fn arrive(&mut self, rank: usize, call: Call, data: Message) -> Result<Option<Round>, String> {
        let before = self.present[rank].replace((call, data));
        assert!(before.is_none(), "a rank came twice to one meeting: this is a bug of polyshard");
        self.arrived += 1;
        if self.arrived < self.members.len() {
            return Ok(None);
        }
        self.arrived = 0;
        let (calls, data): (Vec<_>, Vec<_>) = self.present.iter_mut().filter_map(Option::take).unzip();
        if let Some(message) = disagreement(&self.members, &calls) {
            return Err(message);
        }
        let chunks = match calls[0] {
            Call::AllReduce { bytes, .. } | Call::Reduce { bytes, .. } => bytes.div_ceil(CHUNK),
            _ => 0,
        };
        let combined = (0..chunks).map(|_| Chunk::new()).collect();
        Ok(Some(Round { calls, data, combined, seats: Vec::new() }))
    }

    /// Counts one more member that settles; returns whether it was the last.
    pub(super) fn settle(&mut self) -> bool {
        self.settling += 1;
        let last = self.settling == self.members.len();
        if last {
            self.settling = 0;
            self.settled += 1;
        }
        last
    }

    /// Returns how often all members have settled.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// Returns the call with which `rank` waits here.
    pub(super) fn call(&self, rank: usize) -> Option<&Call> {
        self.present[rank].as_ref().map(|(call, _)| call)
    }
}
