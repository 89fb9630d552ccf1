//! Messages between threads, by the two protocols that MPI libraries have: short ones are eager, copied at once and
//! received at any time; for long ones sender and receivers meet, and they are read where the sender has them.
//!
//! Whoever sends a long message waits until all who read it are done, whatever happens meanwhile: the members of a
//! collective settle when they have read, and what was sent to one rank is withdrawn if it has not begun to read. So the
//! data stay borrowed from their owner as long as anyone can see them.
#![expect(unsafe_code, reason = "reads slices that other threads have borrowed")]

use super::super::call::Call;
use super::meeting::Round;
use super::state::{GroupId, Shared};
use crate::Result;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes from which on a message is read in place: to copy a shorter one takes less time than to wait for its readers.
const LEAST: usize = 1 << 16;

/// The bytes of one message, which all ranks may read.
#[derive(Clone)]
pub(super) enum Message {
    /// A copy, of which the sender knows nothing any more.
    Eager(Arc<[u8]>),
    /// The sender's own, which waits until it has been read.
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
    /// Returns a message whose sender need not wait for anyone.
    pub(super) fn eager(data: &[u8]) -> Self {
        Self::Eager(data.into())
    }

    /// Returns a message that is read in place if it is long.
    ///
    /// # Safety
    /// If it is borrowed, `data` stay borrowed as long as another rank reads the message or may begin to.
    unsafe fn in_place(data: &[u8]) -> Self {
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
            // SAFETY: they are address and length of a slice, and whoever made this message has promised that it stays
            // borrowed.
            Self::Borrowed(Borrowed { address, len }) => unsafe { std::slice::from_raw_parts(*address, *len) },
        }
    }
}

impl Shared {
    /// Brings `call` and `data` to the group's meeting, waits until all members have come, and lets `read` see what they
    /// brought.
    ///
    /// `rank` is the rank in the group, `this` in the world.
    pub(super) fn meet_in_place(
        &self,
        group: GroupId,
        [rank, this]: [usize; 2],
        call: Call,
        data: &[u8],
        read: impl FnOnce(&Round),
    ) -> Result<()> {
        // SAFETY: if the meeting fails, so has the world, and nobody reads what it was brought. Else all members get the
        // round, and this function does not return before each of them has read and dropped it.
        let message = unsafe { Message::in_place(data) };
        let round = self.meet(group, rank, this, call, message)?;
        let is_borrowed = round.data.iter().any(Message::is_borrowed);
        let _reading = is_borrowed.then(|| AtEnd(|| self.settle(group)));
        read(&round);
        drop(round);
        Ok(())
    }

    /// Sends messages of rank `this` to the ranks they are paired with, calls `then`, and waits until all were read.
    pub(super) fn send_in_place<'a>(
        &self,
        group: GroupId,
        this: usize,
        messages: impl IntoIterator<Item = (usize, &'a [u8])>,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        // SAFETY: `_sending` is dropped before this function returns, and withdraws what nobody has begun to read and
        // waits for those who read.
        let in_place = |(to, data)| (to, unsafe { Message::in_place(data) });
        let messages: Vec<_> = messages.into_iter().map(in_place).collect();
        let waits = messages.iter().any(|(_, message)| message.is_borrowed());
        let _sending = waits.then(|| AtEnd(|| self.withdraw(this)));
        self.send(group, this, messages)?;
        then()?;
        if waits { self.wait_until_read(this) } else { Ok(()) }
    }

    /// Waits for the next message from `from` to `this`, which expects as many bytes as `into` has, and copies it.
    ///
    /// Returns its length if it has another.
    pub(super) fn receive_into(
        &self,
        group: GroupId,
        this: usize,
        from: usize,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        let message = self.receive(group, this, from, into.len())?;
        let _read = message.is_borrowed().then(|| AtEnd(|| self.was_read(from)));
        if message.len() != into.len() {
            return Ok(Some(message.len()));
        }
        into.copy_from_slice(&message);
        Ok(None)
    }
}

/// Calls a function when it is dropped, also where a rank panics.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
