//! Messages between threads, by the two protocols of MPI libraries: eager for short ones, copied at once and received
//! at any time; rendezvous for long ones, which receivers read in the sender's buffer while the sender waits.
#![expect(unsafe_code, reason = "reads slices that other threads have borrowed")]

use std::ops::Deref;
use std::sync::Arc;

/// Minimum bytes of a message that is read in place: copying a shorter one takes less time than waiting for its readers.
const LEAST: usize = 1 << 16;

/// The bytes of one message, which all ranks may read.
#[derive(Clone)]
pub(super) enum Message {
    /// A copy, which does not depend on the sender any more.
    Eager(Arc<[u8]>),
    /// The sender's own bytes; it waits until they have been read.
    Borrowed(Borrowed),
}

/// Bytes that another thread has borrowed.
#[derive(Clone)]
pub(super) struct Borrowed {
    address: *const u8,
    len: usize,
}

// SAFETY: it stands for a shared slice of bytes, which any thread may read.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Message {
    /// Returns a message whose sender need not wait.
    pub(super) fn eager(data: &[u8]) -> Self {
        Self::Eager(data.into())
    }

    /// Returns a message that is read in place if it is long.
    ///
    /// # Safety
    /// If the message is borrowed, `data` must stay borrowed as long as another rank reads it or may begin to.
    pub(super) unsafe fn in_place(data: &[u8]) -> Self {
        match data.len() < LEAST {
            true => Self::eager(data),
            false => Self::Borrowed(Borrowed { address: data.as_ptr(), len: data.len() }),
        }
    }

    pub(super) fn is_borrowed(&self) -> bool {
        matches!(self, Self::Borrowed(_))
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Eager(data) => data,
            // SAFETY: they are address and length of a slice, and the creator of this message has promised that it stays borrowed.
            Self::Borrowed(Borrowed { address, len }) => unsafe { std::slice::from_raw_parts(*address, *len) },
        }
    }
}
