//! Memory that ranks share: how one rank finds another's block in order to write into it.
//!
//! Threads of one process see all of each other's memory. MPI processes of one node see what was allocated
//! as a window. A block has a *handle*, a number that means the same on all ranks that can see it. What may be
//! written when is not decided here, nor is anything written.

use crate::{Result, Segment};

/// Where a rank may put a block so that others can write into it.
#[derive(Debug)]
pub enum Allocation {
    /// In its own memory, all of which the others see.
    Private,
    /// In this segment.
    Shared(Segment),
    /// Nowhere on any rank, for this reason.
    Unavailable(String),
}

/// The memory that a rank shares with others, and what it takes to find one's way in it.
pub trait SharedMemory {
    /// Returns whether rank `rank` of the group that this was made for shares memory with this rank.
    fn reaches(&self, rank: usize) -> bool;

    /// Allocates `bytes` bytes that the others can see, in the same kind of memory on all ranks. Collective over
    /// the group that this was made for; ranks may want different numbers of bytes.
    ///
    /// # Errors
    /// If the library reports one, or another rank failed. That there is no such memory left is no error.
    fn allocate(&self, bytes: usize) -> Result<Allocation>;

    /// Returns the handle of the block at `address`, which is in `segment` if it is in one; none if other ranks
    /// cannot see it.
    fn handle(&self, address: *mut u8, segment: Option<&Segment>) -> Option<u64>;

    /// Returns where this rank sees the block of `rank` with that handle, if it has at least `bytes` bytes.
    fn locate(&self, rank: usize, handle: u64, bytes: usize) -> Option<*mut u8>;

    /// Orders what this rank has read and written before what it reads and writes afterwards (MPI 3.1, section
    /// 11.7.4). Together with a synchronisation of the ranks, it makes what one has written what the other reads.
    ///
    /// # Errors
    /// If the library reports one.
    fn sync(&self) -> Result<()>;

    /// Gives back what no array uses any more. Collective over the group that this was made for.
    ///
    /// # Errors
    /// If the library reports one, or another rank failed.
    fn close(&self) -> Result<()>;
}

/// The memory of ranks that are threads of one process: all of it is shared.
pub(super) struct OneProcess;

impl SharedMemory for OneProcess {
    fn reaches(&self, _rank: usize) -> bool {
        true
    }

    fn allocate(&self, _bytes: usize) -> Result<Allocation> {
        Ok(Allocation::Private)
    }

    fn handle(&self, address: *mut u8, _segment: Option<&Segment>) -> Option<u64> {
        Some(address.expose_provenance() as u64)
    }

    fn locate(&self, _rank: usize, handle: u64, _bytes: usize) -> Option<*mut u8> {
        Some(std::ptr::with_exposed_provenance_mut(handle as usize))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// The memory of ranks whose machine is emulated: it is one process, but what is written past its network takes no
/// time there.
pub(super) struct Apart {
    /// This rank.
    pub(super) rank: usize,
}

impl SharedMemory for Apart {
    fn reaches(&self, rank: usize) -> bool {
        rank == self.rank
    }

    fn allocate(&self, _bytes: usize) -> Result<Allocation> {
        Ok(Allocation::Unavailable("ranks of an emulated machine share no memory; use `Transport::Messages`".into()))
    }

    fn handle(&self, _address: *mut u8, _segment: Option<&Segment>) -> Option<u64> {
        None
    }

    fn locate(&self, _rank: usize, _handle: u64, _bytes: usize) -> Option<*mut u8> {
        None
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
