//! How the ranks of a group meet in a collective.
//!
//! [`Arrivals`] collects one call and one contribution per rank. The last to arrive turns it into a
//! [`Contributions`], which all ranks then read without the lock.

use super::super::Header;
use super::super::call::{Call, disagreement};
use super::group::Membership;
use super::message::Message;
use std::sync::{Arc, OnceLock};

/// Bytes of a reduction that one rank combines at once: a multiple of every element's size.
pub(super) const CHUNK: usize = 1 << 16;

/// A part of the result of a reduction.
pub(super) type Chunk = OnceLock<Vec<u8>>;

/// The contributions of all ranks to a collective, by rank in the group.
pub(super) struct Contributions {
    pub(super) calls: Vec<Call>,
    pub(super) data: Vec<Message>,
    /// Chunks of the result of a reduction, each combined by the rank that reaches it first.
    pub(super) combined: Arc<[Chunk]>,
    /// After a split, each rank's place in its new group.
    pub(super) memberships: Vec<Membership>,
}

/// The arrivals at the next collective of one group.
pub(super) struct Arrivals {
    /// World ranks of the members, by rank in the group.
    pub(super) members: Arc<[usize]>,
    /// Members that have not dropped their communicator.
    pub(super) alive: usize,
    present: Vec<Option<(Call, Brings)>>,
    arrived: usize,
    /// Members that wait for the others at the fence, and the number of completed fences.
    at_fence: usize,
    fences: u64,
    /// The headers of the last exchange, by rank in the group.
    headers: Vec<Header>,
}

/// The contribution of a rank to a collective.
#[derive(Clone)]
pub(super) enum Brings {
    Data(Message),
    /// A header, which needs no allocation.
    Header(Header),
}

/// The contributions of all ranks.
pub(super) enum Round {
    Data(Contributions),
    /// They are in [`Arrivals::headers`].
    Headers,
}

impl Arrivals {
    /// Returns the arrivals of a new group, none so far.
    pub(super) fn new(members: Arc<[usize]>) -> Self {
        let size = members.len();
        Self {
            members,
            alive: size,
            present: vec![None; size],
            arrived: 0,
            at_fence: 0,
            fences: 0,
            headers: vec![Header::default(); size],
        }
    }

    /// Adds the contribution of `rank`; returns those of all if it was the last to arrive.
    ///
    /// # Errors
    /// The calls of the ranks, if they differ.
    pub(super) fn arrive(&mut self, rank: usize, call: Call, brings: Brings) -> Result<Option<Round>, String> {
        let before = self.present[rank].replace((call, brings));
        assert!(before.is_none(), "a rank came twice to one collective: this is a bug in polyshard");
        self.arrived += 1;
        if self.arrived < self.members.len() {
            return Ok(None);
        }
        self.arrived = 0;
        if self.exchange() {
            return Ok(Some(Round::Headers));
        }
        let (calls, brought): (Vec<_>, Vec<_>) = self.present.iter_mut().filter_map(Option::take).unzip();
        if let Some(message) = disagreement(&self.members, &calls) {
            return Err(message);
        }
        let data = brought.into_iter().map(|brings| match brings {
            Brings::Data(data) => data,
            Brings::Header(_) => panic!("a header got into a collective: this is a bug in polyshard"),
        });
        let data = data.collect();
        let chunks = match calls[0] {
            Call::AllReduce { bytes, .. } | Call::Reduce { bytes, .. } => bytes.div_ceil(CHUNK),
            _ => 0,
        };
        let combined = (0..chunks).map(|_| Chunk::new()).collect();
        Ok(Some(Round::Data(Contributions { calls, data, combined, memberships: Vec::new() })))
    }

    /// Takes the headers if all members contributed one, on the same subject; allocates nothing.
    fn exchange(&mut self) -> bool {
        let Some((first, _)) = &self.present[0] else { return false };
        let same =
            |brought: &Option<(Call, Brings)>| matches!(brought, Some((call, Brings::Header(_))) if call == first);
        if !self.present.iter().all(same) {
            return false;
        }
        for (into, brought) in self.headers.iter_mut().zip(&mut self.present) {
            if let Some((_, Brings::Header(header))) = brought.take() {
                *into = header;
            }
        }
        true
    }

    /// Returns the headers of the last exchange, by rank in the group.
    pub(super) fn headers(&self) -> &[Header] {
        &self.headers
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

    /// Returns the call in which `rank` waits here.
    pub(super) fn call(&self, rank: usize) -> Option<&Call> {
        self.present[rank].as_ref().map(|(call, _)| call)
    }
}
