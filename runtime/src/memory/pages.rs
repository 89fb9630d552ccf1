//! Pages: memory that a rank has from the system, its own or a segment that other processes of the node can map.

use super::segment::Segment;
use memmap2::MmapMut;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who can be told of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// This process alone.
    Here,
    /// The other processes of the node, too.
    OnTheNode,
}

/// Memory from the system.
#[derive(Debug)]
pub(crate) struct Pages {
    // The file becomes empty before it is unmapped, which nobody sees in between.
    segment: Option<Segment>,
    map: MmapMut,
}

/// Set once the system has refused a segment: from then on all memory is this process' own.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Set once ranks are known to be processes that share memory.
static RANKS_SHARE: AtomicBool = AtomicBool::new(false);

/// Returns who is to see what ranks are to read of each other.
pub(super) fn seen_by_ranks() -> Seen {
    if RANKS_SHARE.load(Ordering::Relaxed) { Seen::OnTheNode } else { Seen::Here }
}

/// Says that ranks are processes that share memory.
#[cfg(feature = "mpi")]
pub(crate) fn ranks_share() {
    RANKS_SHARE.store(true, Ordering::Relaxed);
}

impl Pages {
    /// Returns `bytes` zeros from the system; its own where it has no segment.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(super) fn new(bytes: usize, seen: Seen) -> io::Result<Self> {
        if seen == Seen::OnTheNode && !REFUSED.load(Ordering::Relaxed) {
            match Segment::new(bytes) {
                Ok((segment, map)) => return Ok(Self { segment: Some(segment), map }),
                Err(why) => refused(&why),
            }
        }
        let map = MmapMut::map_anon(bytes)?;
        // Where there are no large pages, small ones do.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { segment: None, map })
    }

    /// Returns who can be told of it.
    pub(super) fn seen(&self) -> Seen {
        if self.segment.is_some() { Seen::OnTheNode } else { Seen::Here }
    }

    /// Returns the segment that it is, if it is one.
    pub(super) fn segment(&self) -> Option<&Segment> {
        self.segment.as_ref()
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Returns the bytes, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// Has all memory be this process' own from now on, because nobody can map it.
#[cfg(feature = "mpi")]
pub(crate) fn share_none() {
    REFUSED.store(true, Ordering::Relaxed);
}

/// Says once that arrays are no longer where other processes see them.
fn refused(why: &io::Error) {
    if !REFUSED.swap(true, Ordering::Relaxed) {
        eprintln!(
            "polyshard: process {} gets no more memory that other processes of its node can map ({why}); they get its \
             new arrays by messages",
            std::process::id()
        );
    }
}
