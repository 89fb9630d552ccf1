//! A group of one rank.
//!
//! A mesh axis of extent 1 needs no communication, but a program that names it must still run, so the
//! group exists and copies. It asks its origin only for what the ranks share: the count of bytes received
//! and the way to end all ranks.

use super::shared::OneProcess;
use super::{Broadcast, Communicator, Header, Received, SharedMemory, check};
use crate::{DType, ReduceOp, Result};
use std::borrow::Cow;
use std::rc::Rc;

/// The group of one rank, split off from `origin` without communication.
pub(crate) struct Alone {
    origin: Rc<dyn Communicator>,
}

impl Alone {
    /// Returns the group that holds this rank of `origin` alone.
    pub(crate) fn new(origin: Rc<dyn Communicator>) -> Self {
        Self { origin }
    }
}

impl Communicator for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn world_rank(&self, rank: usize) -> usize {
        assert_eq!(rank, 0, "the group has rank 0 alone");
        self.origin.world_rank(self.origin.rank())
    }

    fn send(&self, to: usize, _data: &[u8]) -> Result<()> {
        check::peer(1, 0, to)
    }

    fn receive(&self, from: usize, _into: &mut [u8]) -> Result<()> {
        check::peer(1, 0, from)
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        check::exchange(1, 0, sends, receives)
    }

    fn broadcast(&self, part: Broadcast<'_>) -> Result<()> {
        match part {
            Broadcast::Send(_) => Ok(()),
            Broadcast::Receive { root, .. } => check::root_receives(1, 0, root),
        }
    }

    fn all_gather(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        check::counts(1, counts, "into", into.len())?;
        check::own_count(counts[0], "send", send.len())?;
        into.copy_from_slice(send);
        Ok(())
    }

    fn all_to_all(&self, send: &[u8], send_counts: &[usize], into: &mut [u8], receive_counts: &[usize]) -> Result<()> {
        check::counts(1, send_counts, "send", send.len())?;
        check::counts(1, receive_counts, "into", into.len())?;
        check::own_count(receive_counts[0], "send", send.len())?;
        into.copy_from_slice(send);
        Ok(())
    }

    fn reduce(&self, root: usize, data: &mut [u8], dtype: DType, _op: ReduceOp) -> Result<()> {
        check::member(1, root)?;
        check::elements(dtype, data)
    }

    fn all_reduce(&self, data: &mut [u8], dtype: DType, _op: ReduceOp) -> Result<()> {
        check::elements(dtype, data)
    }

    fn reduce_scatter(
        &self,
        send: &[u8],
        into: &mut [u8],
        counts: &[usize],
        dtype: DType,
        _op: ReduceOp,
    ) -> Result<()> {
        check::reduce_scatter(1, 0, send, into, counts, dtype)?;
        into.copy_from_slice(send);
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn exchange_headers(&self, _tag: Cow<'static, str>, header: Header, into: &mut Vec<Header>) -> Result<()> {
        into.clear();
        into.push(header);
        Ok(())
    }

    fn split(&self, _color: usize, _key: usize) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(Self::new(Rc::clone(&self.origin))))
    }

    fn fence(&self) -> Result<()> {
        Ok(())
    }

    fn count_in_place(&self, bytes: usize) {
        self.origin.count_in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        Ok(Rc::new(OneProcess::default()))
    }

    fn received(&self) -> Received {
        self.origin.received()
    }

    fn abort(&self, message: &str) {
        self.origin.abort(message);
    }
}
