//! Messages between threads: short ones are copied, long ones are read where the sender has them.
//!
//! Whoever lends a message waits until all who read it are done, whatever happens meanwhile: the members of a collective
//! settle when they have read, and what was sent to one rank is taken back if it has not begun to read. So what is lent
//! stays borrowed from its owner as long as anyone can see it.
#![expect(unsafe_code, reason = "reads slices that other threads have borrowed")]

use super::super::call::Call;
use super::meeting::Round;
use super::state::{GroupId, Shared};
use crate::Result;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes from which on a message is lent: to copy a shorter one takes less time than to wait for its readers.
const LEAST: usize = 1 << 16;

/// The bytes of one message, which all ranks may read.
#[derive(Clone)]
pub(super) enum Message {
    Copied(Arc<[u8]>),
    Lent(Lent),
}

/// Bytes that another thread has borrowed.
#[derive(Clone)]
pub(super) struct Lent {
    address: *const u8,
    len: usize,
}

// SAFETY: it stands for a shared slice of bytes, which any thread may read.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Message {
    /// Returns a message whose sender need not wait for anyone.
    pub(super) fn copied(data: &[u8]) -> Self {
        Self::Copied(data.into())
    }

    /// Returns a message that is lent if it is long.
    ///
    /// # Safety
    /// If it is lent, `data` stay borrowed as long as another rank reads the message or may begin to.
    unsafe fn lent(data: &[u8]) -> Self {
        match data.len() < LEAST {
            true => Self::copied(data),
            false => Self::Lent(Lent { address: data.as_ptr(), len: data.len() }),
        }
    }

    pub(super) fn is_lent(&self) -> bool {
        matches!(self, Self::Lent(_))
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Copied(data) => data,
            // SAFETY: they are address and length of a slice, and whoever made this message has promised that it stays
            // borrowed.
            Self::Lent(Lent { address, len }) => unsafe { std::slice::from_raw_parts(*address, *len) },
        }
    }
}

impl Shared {
    /// Brings `call` and `data` to the group's meeting, waits until all members have come, and lets `read` see what they
    /// brought.
    ///
    /// `rank` is the rank in the group, `this` in the world.
    pub(super) fn meet_lending(
        &self,
        group: GroupId,
        [rank, this]: [usize; 2],
        call: Call,
        data: &[u8],
        read: impl FnOnce(&Round),
    ) -> Result<()> {
        // SAFETY: if the meeting fails, so has the world, and nobody reads what it was brought. Else all members get the
        // round, and this function does not return before each of them has read and dropped it.
        let message = unsafe { Message::lent(data) };
        let round = self.meet(group, rank, this, call, message)?;
        let is_lent = round.data.iter().any(Message::is_lent);
        let _reading = is_lent.then(|| Reading { shared: self, group });
        read(&round);
        drop(round);
        Ok(())
    }

    /// Sends messages of rank `this` to the ranks they are paired with, calls `then`, and waits until all were read.
    pub(super) fn send_lending<'a>(
        &self,
        group: GroupId,
        this: usize,
        messages: impl IntoIterator<Item = (usize, &'a [u8])>,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        // SAFETY: `lending` is dropped before this function returns, and takes back what nobody has begun to read and
        // waits for those who read.
        let lent = |(to, data)| (to, unsafe { Message::lent(data) });
        let messages: Vec<_> = messages.into_iter().map(lent).collect();
        let lends = messages.iter().any(|(_, message)| message.is_lent());
        let _lending = lends.then(|| Lending { shared: self, this });
        self.send(group, this, messages)?;
        then()?;
        if lends { self.wait_until_read(this) } else { Ok(()) }
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
        let _read = message.is_lent().then(|| Read { shared: self, from });
        if message.len() != into.len() {
            return Ok(Some(message.len()));
        }
        into.copy_from_slice(&message);
        Ok(None)
    }
}

/// A member that reads what others brought to a meeting; at the end it waits for the others.
struct Reading<'a> {
    shared: &'a Shared,
    group: GroupId,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shared.settle(self.group);
    }
}

/// A rank that has lent messages; at the end nobody reads them any more.
struct Lending<'a> {
    shared: &'a Shared,
    this: usize,
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        self.shared.take_back(self.this);
    }
}

/// A rank that reads a message which `from` has lent.
struct Read<'a> {
    shared: &'a Shared,
    from: usize,
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        self.shared.was_read(self.from);
    }
}
