//! Memory that ranks share: how one rank finds another's block in order to read it.
//!
//! Threads of one process see all of each other's memory. MPI processes of one node see the segments that the others have
//! published. A block has a *handle*, a number by which all ranks that can see it find it. This module neither decides what
//! may be read when, nor reads.

use super::Header;
use crate::Result;
use memmap2::MmapRaw;
use polyshard_memory::Segment;
use std::any::Any;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The place where this rank sees a block of another.
#[derive(Clone, Debug)]
pub struct Located {
    /// The address of its first byte.
    pub address: *mut u8,
    /// The mapping that keeps it valid, if it is not the process' own memory.
    pub mapping: Option<Rc<MmapRaw>>,
}

/// Memory that its rank must neither write nor free, as others may be reading it.
pub type Stranded = Arc<dyn Any + Send + Sync>;

/// The memory that a rank shares with others, and how to find blocks in it.
pub trait SharedMemory {
    /// Returns whether rank `rank` of the group that this was made for shares memory with this rank.
    fn reaches(&self, rank: usize) -> bool;

    /// Returns whether any two ranks share memory; the same on all ranks.
    fn is_shared(&self) -> bool;

    /// Returns whether each rank has a core, so that waiting ranks take none from the others; the same on all ranks.
    fn has_core_each(&self) -> bool {
        true
    }

    /// Returns the handle of the block at `address`, or none if other ranks cannot see it. `segment` is the segment that the
    /// block is in, if any, and the block's offset in it, in bytes.
    fn handle(&self, address: *const u8, segment: Option<(&Segment, usize)>) -> Option<u64>;

    /// Gives every rank the headers of all, in rank order, in `into`, if all ranks share memory and this is faster than an
    /// [exchange](super::Communicator::exchange_headers); otherwise does nothing, on all ranks.
    fn gather(&self, header: Header, into: &mut Vec<Header>) -> Option<Result<()>> {
        let _ = (header, into);
        None
    }

    /// Returns which of its owner's segments holds the block with that handle, if others must map the segment first.
    fn segment(&self, handle: u64) -> Option<u64> {
        let _ = handle;
        None
    }

    /// Maps the segment of `rank` that holds the block with that handle, so that blocks in it can be located.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    fn map(&self, rank: usize, handle: u64) -> io::Result<()> {
        let _ = (rank, handle);
        Ok(())
    }

    /// Returns where this rank sees the block of `rank` with that handle, which has `bytes` bytes and is not freed meanwhile.
    ///
    /// # Errors
    /// If the system does not let it see the block, or the block is shorter.
    fn locate(&self, rank: usize, handle: u64, bytes: usize) -> io::Result<Located>;

    /// Orders this rank's earlier reads and writes before its later ones. Together with a synchronisation of
    /// the ranks, it makes the writes of one visible to the reads of another.
    fn sync(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    /// Keeps memory that other ranks may be reading, unknown to this rank after a failure, until none of them can.
    fn strand(&self, memory: Stranded);
}

/// The memory of ranks that are threads of one process: all of it is shared.
#[derive(Default)]
pub(super) struct OneProcess {
    /// Dropped by the last of the ranks.
    pub(super) stranded: Arc<Mutex<Vec<Stranded>>>,
}

impl SharedMemory for OneProcess {
    fn reaches(&self, _rank: usize) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn handle(&self, address: *const u8, _segment: Option<(&Segment, usize)>) -> Option<u64> {
        Some(address.expose_provenance() as u64)
    }

    fn locate(&self, _rank: usize, handle: u64, _bytes: usize) -> io::Result<Located> {
        Ok(Located { address: std::ptr::with_exposed_provenance_mut(handle as usize), mapping: None })
    }

    fn strand(&self, memory: Stranded) {
        self.stranded.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }
}

/// The memory of ranks whose machine is emulated: it is one process, but reads and writes that bypass its network would
/// take no emulated time.
pub(super) struct Apart {
    /// This rank.
    pub(super) rank: usize,
}

impl SharedMemory for Apart {
    fn reaches(&self, rank: usize) -> bool {
        rank == self.rank
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn handle(&self, _address: *const u8, _segment: Option<(&Segment, usize)>) -> Option<u64> {
        None
    }

    fn locate(&self, rank: usize, _handle: u64, _bytes: usize) -> io::Result<Located> {
        Err(io::Error::other(format!("rank {rank} of an emulated machine shares no memory")))
    }

    fn strand(&self, _memory: Stranded) {}
}
