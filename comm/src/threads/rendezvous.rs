//! How receivers read long messages in the sender's buffer.
//!
//! The sender of a long message waits until all readers are done, whatever happens meanwhile: the members of a collective meet at
//! a fence when they have read, and a message to one rank is withdrawn if that rank has not begun to read. So the data stay
//! borrowed from their owner as long as any rank can see them.
#![expect(unsafe_code, reason = "lends slices to other threads until they have read them")]

use super::super::call::Call;
use super::super::check;
use super::arrivals::Contributions;
use super::group::GroupId;
use super::message::Message;
use super::state::Shared;
use crate::Result;

impl Shared {
    /// Contributes `call` and `data` to the group's next collective, waits until all members have arrived, and lets `read` see
    /// their contributions.
    ///
    /// `rank` is the rank in the group, `this` the world rank.
    pub(super) fn meet_in_place(
        &self,
        group: GroupId,
        [rank, this]: [usize; 2],
        call: Call,
        data: &[u8],
        read: impl FnOnce(&Contributions),
    ) -> Result<()> {
        // SAFETY: if the collective fails, so has the world, and no rank reads its contributions. Otherwise all members get
        // the contributions, and this function does not return before each of them has read and dropped them.
        let message = unsafe { Message::in_place(data) };
        let contributions = self.meet(group, rank, this, call, message)?;
        let is_borrowed = contributions.data.iter().any(Message::is_borrowed);
        let _reading = is_borrowed.then(|| AtEnd(|| self.fence(group)));
        read(&contributions);
        drop(contributions);
        Ok(())
    }

    /// Sends messages of rank `this` to the ranks they are paired with, calls `then`, and waits until all have been read.
    pub(super) fn send_in_place<'a>(
        &self,
        group: GroupId,
        this: usize,
        messages: impl IntoIterator<Item = (usize, &'a [u8])>,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        // SAFETY: `_sending` is dropped before this function returns, withdraws the messages that no rank has begun
        // to read, and waits for the ranks that are reading.
        let in_place = |(to, data)| (to, unsafe { Message::in_place(data) }, 0.0);
        let messages: Vec<_> = messages.into_iter().map(in_place).collect();
        let waits = messages.iter().any(|(_, message, _)| message.is_borrowed());
        let _sending = waits.then(|| AtEnd(|| self.withdraw(this)));
        if !messages.is_empty() {
            self.send(group, this, messages)?;
        }
        then()?;
        if waits { self.wait_until_read(this) } else { Ok(()) }
    }

    /// Waits for the next message from `from` to `this`, which expects as many bytes as `into` has, copies it, and returns when it
    /// arrives on the emulated machine, if there is one.
    pub(super) fn receive_into(&self, group: GroupId, this: usize, from: usize, into: &mut [u8]) -> Result<f64> {
        let (message, arrives) = self.receive(group, this, from, into.len())?;
        let _read = message.is_borrowed().then(|| AtEnd(|| self.was_read(from)));
        if message.len() != into.len() {
            return Err(check::length(this, from, into.len(), Some(message.len())));
        }
        into.copy_from_slice(&message);
        Ok(arrives)
    }
}

/// Calls a function when it is dropped, also when a rank panics.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
