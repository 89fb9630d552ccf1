//! Non-blocking messages whose other side has not been posted, and the progress of flights.

use super::super::words::amount;
use super::super::{Piece, check};
use super::group::GroupId;
use crate::Error;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A group, a sender and a receiver.
pub(super) type Link = (GroupId, usize, usize);

/// The messages of one link whose other side has not been posted: either sends or receives.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) sends: VecDeque<PostedSend>,
    pub(super) receives: VecDeque<PostedReceive>,
}

pub(super) struct PostedSend {
    pub(super) piece: Arc<Piece>,
    /// When it arrives on the emulated machine, if there is one.
    pub(super) arrives: f64,
    pub(super) progress: Arc<Progress>,
}

pub(super) struct PostedReceive {
    pub(super) piece: Piece,
    /// Its index among the receives of its flight.
    pub(super) place: usize,
    pub(super) progress: Arc<Progress>,
}

/// The progress of a flight.
pub(super) struct Progress {
    /// The number of messages that have not been copied.
    pub(super) left: AtomicUsize,
    arrived: Mutex<Arrived>,
    /// The error that prevents its completion.
    pub(super) error: OnceLock<Error>,
}

/// The received messages of a flight.
pub(super) struct Arrived {
    /// In the order posted, once copied.
    pub(super) pieces: Vec<Option<Piece>>,
    /// When the last of them arrives on the emulated machine, if there is one.
    pub(super) last: f64,
}

impl Progress {
    /// Returns the progress of a flight of this many messages, none of which has been copied.
    pub(super) fn new(sends: usize, receives: usize) -> Self {
        let arrived = Arrived { pieces: (0..receives).map(|_| None).collect(), last: 0.0 };
        Self { left: AtomicUsize::new(sends + receives), arrived: Mutex::new(arrived), error: OnceLock::new() }
    }

    pub(super) fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the flight is done or has failed.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 || self.error.get().is_some()
    }
}

impl Pending {
    /// Removes the messages of a flight.
    pub(super) fn withdraw(&mut self, progress: &Arc<Progress>) {
        self.sends.retain(|send| !Arc::ptr_eq(&send.progress, progress));
        self.receives.retain(|receive| !Arc::ptr_eq(&receive.progress, progress));
    }

    /// Describes the first message posted, if its other side would be posted by the rank `ended`.
    pub(super) fn lacks(&self, (_, from, to): Link, ended: usize) -> Option<String> {
        let receive = self.receives.front().filter(|_| from == ended);
        let send = self.sends.front().filter(|_| to == ended);
        let receive = receive.map(|it| format!("rank {to} receives {} from rank {from}", amount(it.piece.len())));
        receive.or_else(|| send.map(|it| format!("rank {from} sends {} to rank {to}", amount(it.piece.len()))))
    }
}

/// Copies a message, returns the received piece to its flight, and returns the progress of both flights, to be notified.
pub(super) fn copy(link: Link, send: PostedSend, receive: PostedReceive) -> (Link, Arc<Progress>, Arc<Progress>) {
    let PostedReceive { mut piece, place, progress } = receive;
    if send.piece.len() == piece.len() {
        piece.copy_from_slice(&send.piece);
    } else {
        let (_, from, to) = link;
        // An earlier message of the flight may have had another length, too: that error is reported.
        let _ = progress.error.set(check::length(to, from, piece.len(), Some(send.piece.len())));
    }
    let mut arrived = progress.arrived();
    arrived.pieces[place] = Some(piece);
    arrived.last = arrived.last.max(send.arrives);
    drop(arrived);
    (link, send.progress, progress)
}
