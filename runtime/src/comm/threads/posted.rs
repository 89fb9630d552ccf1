//! Messages that do not wait and wait for their other side, and how far flights are.

use super::super::words::amount;
use super::super::{Piece, check};
use super::group::GroupId;
use crate::Error;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// From one rank to another, in a group.
pub(super) type Link = (GroupId, usize, usize);

/// The messages of one link whose other side has not been posted: of one side only.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) sends: VecDeque<PostedSend>,
    pub(super) receives: VecDeque<PostedReceive>,
}

pub(super) struct PostedSend {
    pub(super) piece: Arc<Piece>,
    pub(super) progress: Arc<Progress>,
}

pub(super) struct PostedReceive {
    pub(super) piece: Piece,
    /// Its place among the receives of its flight.
    pub(super) place: usize,
    pub(super) progress: Arc<Progress>,
}

/// How far a flight is.
pub(super) struct Progress {
    /// The messages that have not been copied.
    pub(super) left: AtomicUsize,
    pub(super) arrived: Mutex<Vec<Option<Piece>>>,
    /// Why it can never be done.
    pub(super) error: OnceLock<Error>,
}

impl Progress {
    /// Returns that of a flight of this many messages, none of which has been copied.
    pub(super) fn new(sends: usize, receives: usize) -> Self {
        let arrived = Mutex::new((0..receives).map(|_| None).collect());
        Self { left: AtomicUsize::new(sends + receives), arrived, error: OnceLock::new() }
    }

    /// Returns whether there is nothing left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 || self.error.get().is_some()
    }
}

impl Pending {
    /// Forgets the messages of a flight.
    pub(super) fn withdraw(&mut self, progress: &Arc<Progress>) {
        self.sends.retain(|send| !Arc::ptr_eq(&send.progress, progress));
        self.receives.retain(|receive| !Arc::ptr_eq(&receive.progress, progress));
    }

    /// Returns what has been posted first, if the side that lacks is that of the rank `ended`.
    pub(super) fn lacks(&self, (_, from, to): Link, ended: usize) -> Option<String> {
        let receive = self.receives.front().filter(|_| from == ended);
        let send = self.sends.front().filter(|_| to == ended);
        let receive = receive.map(|it| format!("rank {to} receives {} from rank {from}", amount(it.piece.len())));
        receive.or_else(|| send.map(|it| format!("rank {from} sends {} to rank {to}", amount(it.piece.len()))))
    }
}

/// Copies a message, gives the pieces back, and returns whom to tell.
pub(super) fn copy(link: Link, send: PostedSend, receive: PostedReceive) -> (Link, Arc<Progress>, Arc<Progress>) {
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
