//! Messages that do not wait, between threads.
//!
//! A message is posted by both sides. Whoever comes second copies it at once, outside of the lock, from the one piece into the
//! other, and tells both: so messages arrive whether or not anybody polls, and to poll is to look at two numbers.
//!
//! ```text
//! rank 1   posts a receive from 0       the piece waits in the world's state
//! rank 0   posts the send to 1          copies, done             the flight of rank 1 is done, too
//! ```
//!
//! All memory has owners: the sender's piece is shared, and the receiver's is in the state, with whoever copies, or back in the
//! flight. A flight that is dropped takes its messages out of the state.

use super::super::flight::Transfer;
use super::super::words::amount;
use super::super::{Piece, check};
use super::failure::Failure;
use super::group::GroupId;
use super::state::{Shared, State, Status};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// From one rank to another, in a group.
pub(super) type Link = (GroupId, usize, usize);

/// The messages of one link whose other side has not been posted: of one side only.
#[derive(Default)]
pub(super) struct Pending {
    sends: VecDeque<PostedSend>,
    receives: VecDeque<PostedReceive>,
}

struct PostedSend {
    piece: Arc<Piece>,
    progress: Arc<Progress>,
}

struct PostedReceive {
    piece: Piece,
    /// Its place among the receives of its flight.
    place: usize,
    progress: Arc<Progress>,
}

/// How far a flight is.
pub(super) struct Progress {
    /// The messages that have not been copied.
    left: AtomicUsize,
    arrived: Mutex<Vec<Option<Piece>>>,
    /// Why it can never be done.
    error: OnceLock<Error>,
}

impl Progress {
    /// Returns whether there is nothing left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 || self.error.get().is_some()
    }
}

impl Pending {
    /// Forgets the messages of a flight.
    fn withdraw(&mut self, progress: &Arc<Progress>) {
        self.sends.retain(|send| !Arc::ptr_eq(&send.progress, progress));
        self.receives.retain(|receive| !Arc::ptr_eq(&receive.progress, progress));
    }

    /// Returns what has been posted first, if the side that lacks is that of the rank `ended`.
    fn lacks(&self, (_, from, to): Link, ended: usize) -> Option<String> {
        let receive = self.receives.front().filter(|_| from == ended);
        let send = self.sends.front().filter(|_| to == ended);
        let receive = receive.map(|it| format!("rank {to} receives {} from rank {from}", amount(it.piece.len())));
        receive.or_else(|| send.map(|it| format!("rank {from} sends {} to rank {to}", amount(it.piece.len()))))
    }
}

impl State {
    /// Says what is wrong if a message has been posted whose other side was that of a rank which has ended.
    pub(super) fn unmatched(&self, ended: usize) -> Option<String> {
        // The least, so that it is the same however the map is ordered.
        let what = self.flights.iter().filter_map(|(link, pending)| pending.lacks(*link, ended)).min()?;
        Some(format!("{what}, which has ended without posting its side: post both sides of each message"))
    }
}

impl Shared {
    /// Posts messages of rank `this` to and from the ranks they are paired with. All are numbers in the world.
    pub(super) fn post(
        self: &Arc<Self>,
        group: GroupId,
        this: usize,
        sends: Vec<(usize, Arc<Piece>)>,
        receives: Vec<(usize, Piece)>,
    ) -> Result<ThreadTransfer> {
        let progress = Arc::new(Progress {
            left: AtomicUsize::new(sends.len() + receives.len()),
            arrived: Mutex::new(receives.iter().map(|_| None).collect()),
            error: OnceLock::new(),
        });
        let peers = [
            receives.iter().map(|(from, piece)| (*from, piece.len())).collect(),
            sends.iter().map(|(to, piece)| (*to, piece.len())).collect(),
        ];
        let transfer = ThreadTransfer { shared: Arc::clone(self), this, progress: Arc::clone(&progress), peers };
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
        for (to, piece) in sends {
            let link = (group, this, to);
            let pending = state.flights.entry(link).or_default();
            let send = PostedSend { piece, progress: Arc::clone(&progress) };
            match pending.receives.pop_front() {
                Some(receive) => matched.push((link, send, receive)),
                None => pending.sends.push_back(send),
            }
        }
        let ended = (0..state.ranks.len()).filter(|&rank| matches!(state.ranks[rank].status, Status::Ended));
        if let Some(message) = ended.into_iter().find_map(|rank| state.unmatched(rank)) {
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

    /// Waits until a flight of `this` is over, which has these receives and sends.
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

/// Copies a message, gives the pieces back, and returns whom to tell.
fn copy(link: Link, send: PostedSend, receive: PostedReceive) -> (Link, Arc<Progress>, Arc<Progress>) {
    let PostedReceive { mut piece, place, progress } = receive;
    if send.piece.len() == piece.len() {
        piece.copy_from_slice(&send.piece);
    } else {
        let (_, from, to) = link;
        // An earlier message of the flight may have had another length, too: that is said.
        let _ = progress.error.set(check::length(to, from, piece.len(), Some(send.piece.len())));
    }
    progress.arrived.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(piece);
    (link, send.progress, progress)
}

/// The messages of a flight between threads.
pub(super) struct ThreadTransfer {
    shared: Arc<Shared>,
    this: usize,
    progress: Arc<Progress>,
    /// The ranks that it receives from and those that it sends to, in the world, with the bytes.
    peers: [Vec<(usize, usize)>; 2],
}

impl Transfer for ThreadTransfer {
    fn poll(&mut self) -> Result<bool> {
        if let Some(error) = self.progress.error.get() {
            return Err(error.clone());
        }
        // Another rank's failure is said also to those whose messages have come: all their polls end.
        self.shared.check()?;
        Ok(self.progress.is_over())
    }

    fn wait(&mut self) -> Result<()> {
        self.shared.wait_for_flight(self.this, &self.progress, &self.peers)
    }

    fn read(&self, read: &mut dyn FnMut(usize, &[u8])) {
        let arrived = self.progress.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.iter().flatten().enumerate().for_each(|(place, piece)| read(place, piece));
    }

    fn take(&mut self) -> Vec<Piece> {
        let mut arrived = self.progress.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.drain(..).map(|piece| piece.expect("all have been copied: this is a bug of polyshard")).collect()
    }
}

impl Drop for ThreadTransfer {
    fn drop(&mut self) {
        if self.progress.left.load(Ordering::Acquire) > 0 {
            self.shared.lock().flights.values_mut().for_each(|pending| pending.withdraw(&self.progress));
        }
    }
}
