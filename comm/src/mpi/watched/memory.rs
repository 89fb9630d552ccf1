//! Memory of a node whose ranks wait for each other under watch.

use super::watch::{Group, Watch};
use crate::call::Call;
use crate::mpi::memory::NodeMemory;
use crate::{Header, Located, Result, SharedMemory, Stranded};
use polyshard_memory::Segment;
use std::io;

/// As [`NodeMemory`], with waits at its mailbox recorded.
pub(super) struct WatchedMemory {
    pub(super) inner: NodeMemory,
    pub(super) watch: &'static Watch,
    /// All ranks, at the mailbox.
    pub(super) group: Group,
}

impl Drop for WatchedMemory {
    fn drop(&mut self) {
        self.watch.remove(&self.group);
    }
}

impl SharedMemory for WatchedMemory {
    fn gather(&self, header: Header, into: &mut Vec<Header>) -> Option<Result<()>> {
        let _waiting = self.watch.meets(&self.group, &Call::Headers { about: "the inputs of a run".into() });
        self.inner.gather(header, into)
    }

    fn segment(&self, handle: u64) -> Option<u64> {
        self.inner.segment(handle)
    }

    fn map(&self, rank: usize, handle: u64) -> io::Result<()> {
        self.inner.map(rank, handle)
    }

    fn reaches(&self, rank: usize) -> bool {
        self.inner.reaches(rank)
    }

    fn has_core_each(&self) -> bool {
        self.inner.has_core_each()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn handle(&self, address: *const u8, segment: Option<(&Segment, usize)>) -> Option<u64> {
        self.inner.handle(address, segment)
    }

    fn locate(&self, rank: usize, handle: u64, bytes: usize) -> io::Result<Located> {
        self.inner.locate(rank, handle, bytes)
    }

    fn sync(&self) {
        self.inner.sync();
    }

    fn strand(&self, memory: Stranded) {
        self.inner.strand(memory);
    }
}
