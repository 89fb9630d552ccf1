//! Non-blocking messages between threads.
//!
//! Both sides post a message. The rank that posts second copies it at once, outside of the lock, from one piece into the
//! other, and notifies both: so messages arrive whether or not any rank polls, and a poll only reads two values.
//!
//! ```text
//! rank 1   posts a receive from 0       the piece waits in the world's state
//! rank 0   posts the send to 1          copies, done             the flight of rank 1 is done, too
//! ```
//!
//! All memory has owners: the sender's piece is shared, and the receiver's is in the state, with the rank that copies, or back
//! in the flight. A flight that is dropped removes its messages from the state.

use super::super::Piece;
use super::super::flight::Transfer;
use super::failure::Failure;
use super::group::GroupId;
use super::network::Network;
use super::posted::{PostedReceive, PostedSend, Progress, copy};
use super::state::{Shared, State, Status};
use crate::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl State {
    /// Describes a posted message whose other side would be posted by a rank that has ended.
    pub(super) fn unmatched(&self, ended: usize) -> Option<String> {
        // The minimum, so that it does not depend on the order of the map.
        let what = self.flights.iter().filter_map(|(link, pending)| pending.lacks(*link, ended)).min()?;
        Some(format!("{what}, which has ended without posting its side: post both sides of each message"))
    }
}

impl Shared {
    /// Posts messages of rank `this` to and from the ranks they are paired with. All are world ranks.
    pub(super) fn post(
        self: &Arc<Self>,
        group: GroupId,
        this: usize,
        sends: Vec<(usize, Arc<Piece>)>,
        receives: Vec<(usize, Piece)>,
        network: Option<&Arc<Network>>,
    ) -> Result<ThreadTransfer> {
        let progress = Arc::new(Progress::new(sends.len(), receives.len()));
        let peers = [
            receives.iter().map(|(from, piece)| (*from, piece.len())).collect(),
            sends.iter().map(|(to, piece)| (*to, piece.len())).collect(),
        ];
        let shared = Arc::clone(self);
        let transfer =
            ThreadTransfer { shared, this, progress: Arc::clone(&progress), peers, network: network.cloned() };
        let now = network.map_or(0.0, |network| network.now());
        let arrives = |to, bytes| network.map_or(0.0, |network| network.send(this, to, bytes, now));
        let sends: Vec<_> = sends.into_iter().map(|(to, piece)| (to, arrives(to, piece.len()), piece)).collect();
        let mut matched = Vec::new();
        let mut state = self.lock();
        state.check_failure()?;
        for (place, (from, piece)) in receives.into_iter().enumerate() {
            let link = (group, from, this);
            let pending = state.flights.entry(link).or_default();
            let receive = PostedReceive { piece, place, progress: Arc::clone(&progress) };
            match pending.sends.pop_front() {
                Some(send) => matched.push((link, send, receive)),
                None => pending.receives.push_back(receive),
            }
        }
        for (to, arrives, piece) in sends {
            let link = (group, this, to);
            let pending = state.flights.entry(link).or_default();
            let send = PostedSend { piece, arrives, progress: Arc::clone(&progress) };
            match pending.receives.pop_front() {
                Some(receive) => matched.push((link, send, receive)),
                None => pending.sends.push_back(send),
            }
        }
        let has_ended = |rank: &usize| matches!(state.ranks[*rank].status, Status::Ended);
        let unmatched = (0..state.ranks.len()).filter(has_ended).find_map(|rank| state.unmatched(rank));
        if let Some(message) = unmatched {
            state.fail(Failure::Mismatch(message), &self.wake);
            return Err(state.failed());
        }
        drop(state);
        let copied: Vec<_> = matched.into_iter().map(|(link, send, receive)| copy(link, send, receive)).collect();
        if !copied.is_empty() {
            let mut state = self.lock();
            for ((_, from, to), sent, received) in copied {
                sent.left.fetch_sub(1, Ordering::Release);
                if received.error.get().is_none() {
                    received.left.fetch_sub(1, Ordering::Release);
                }
                for rank in [from, to] {
                    if matches!(&state.ranks[rank].status, Status::Flies { progress, .. } if progress.is_over()) {
                        state.resume(rank, &self.wake);
                    }
                }
            }
        }
        Ok(transfer)
    }

    /// Waits until a flight of `this` with these receives and sends is over.
    fn wait_for_flight(&self, this: usize, progress: &Arc<Progress>, peers: &[Vec<(usize, usize)>; 2]) -> Result<()> {
        let state = self.lock();
        state.check_failure()?;
        if !progress.is_over() {
            let status = Status::Flies { progress: Arc::clone(progress), peers: peers.clone() };
            drop(self.wait(state, this, status)?);
        }
        Ok(())
    }
}

/// The messages of a flight between threads.
pub(super) struct ThreadTransfer {
    shared: Arc<Shared>,
    this: usize,
    progress: Arc<Progress>,
    /// The world ranks that it receives from and those that it sends to, with the bytes.
    peers: [Vec<(usize, usize)>; 2],
    /// The network of the emulated machine, if there is one.
    network: Option<Arc<Network>>,
}

impl Transfer for ThreadTransfer {
    fn poll(&mut self) -> Result<bool> {
        // The other side may set the error meanwhile: a flight that is over because of it is not done.
        let is_over = self.progress.is_over();
        match self.progress.error.get() {
            Some(error) => Err(error.clone()),
            None => Ok(is_over && self.network.as_ref().is_none_or(|it| self.progress.arrived().last <= it.now())),
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.shared.wait_for_flight(self.this, &self.progress, &self.peers)?;
        match &self.network {
            Some(network) if self.progress.error.get().is_none() => {
                let last = self.progress.arrived().last;
                network.sleep_until(last, || self.shared.check())
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self) -> Vec<Piece> {
        let pieces = std::mem::take(&mut self.progress.arrived().pieces);
        pieces.into_iter().map(|piece| piece.expect("all have been copied: this is a bug in polyshard")).collect()
    }
}

impl Drop for ThreadTransfer {
    fn drop(&mut self) {
        if self.progress.left.load(Ordering::Acquire) > 0 {
            self.shared.lock().flights.values_mut().for_each(|pending| pending.withdraw(&self.progress));
        }
    }
}
