//! How the ranks of a group come together in a collective.
//!
//! [`Arrivals`] collects one call and one contribution per rank. The last to arrive turns it into a
//! [`Contributions`], which all ranks then read without the lock.

use super::super::Header;
use super::super::call::{Call, disagreement};
use super::group::Membership;
use super::message::Message;
use std::sync::{Arc, OnceLock};

/// Bytes of a reduction that one rank combines at a time: a multiple of every element's size.
pub(super) const CHUNK: usize = 1 << 16;

/// A part of the result of a reduction.
pub(super) type Chunk = OnceLock<Vec<u8>>;

/// What all ranks brought to a collective, by rank in the group.
pub(super) struct Contributions {
    pub(super) calls: Vec<Call<'static>>,
    pub(super) data: Vec<Message>,
    /// Chunks of the result of a reduction, each combined by the rank that comes to it first.
    pub(super) combined: Arc<[Chunk]>,
    /// After a split, each rank's place in its new group.
    pub(super) memberships: Vec<Membership>,
}

/// What has arrived for the next collective of one group.
pub(super) struct Arrivals {
    /// World ranks of the members, by rank in the group.
    pub(super) members: Arc<[usize]>,
    /// Members that have not dropped their communicator.
    pub(super) alive: usize,
    present: Vec<Option<(Call<'static>, Message)>>,
    arrived: usize,
    /// Members that wait for the others at the fence, and how many fences all have passed.
    at_fence: usize,
    fences: u64,
    /// The notices of those who have come to the board, and those of its last round.
    notices: Vec<Header>,
    told: Vec<Header>,
    at_board: usize,
}

impl Arrivals {
    /// Returns that of a new group, to which nobody has come.
    pub(super) fn new(members: Arc<[usize]>) -> Self {
        let size = members.len();
        Self {
            members,
            alive: size,
            present: vec![None; size],
            arrived: 0,
            at_fence: 0,
            fences: 0,
            notices: vec![Header::default(); size],
            told: vec![Header::default(); size],
            at_board: 0,
        }
    }

    /// Adds what `rank` brings; returns the contributions if it was the last to arrive.
    ///
    /// # Errors
    /// What each rank called, if they do not call the same.
    pub(super) fn arrive(
        &mut self,
        rank: usize,
        call: Call<'static>,
        data: Message,
    ) -> Result<Option<Contributions>, String> {
        let before = self.present[rank].replace((call, data));
        assert!(before.is_none(), "a rank came twice to one collective: this is a bug of polyshard");
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
        Ok(Some(Contributions { calls, data, combined, memberships: Vec::new() }))
    }

    /// Puts the notice of `rank` on the board; returns whether it was the last one of its round.
    pub(super) fn put_up(&mut self, rank: usize, notice: Header) -> bool {
        self.notices[rank] = notice;
        self.at_board += 1;
        let last = self.at_board == self.members.len();
        if last {
            self.at_board = 0;
            std::mem::swap(&mut self.notices, &mut self.told);
        }
        last
    }

    /// Returns the notices of the last round, by rank in the group.
    pub(super) fn told(&self) -> &[Header] {
        &self.told
    }

    /// Counts one more member at the fence; returns whether it was the last.
    pub(super) fn fence(&mut self) -> bool {
        self.at_fence += 1;
        let last = self.at_fence == self.members.len();
        if last {
            self.at_fence = 0;
            self.fences += 1;
        }
        last
    }

    /// Returns how many fences all members have passed.
    pub(super) fn fences(&self) -> u64 {
        self.fences
    }

    /// Returns the call with which `rank` waits here.
    pub(super) fn call(&self, rank: usize) -> Option<&Call<'static>> {
        self.present[rank].as_ref().map(|(call, _)| call)
    }
}
