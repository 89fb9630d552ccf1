//! Pages: memory that a rank gets from the system, private or in a segment that other processes of the node can map.

use super::arena::{self, Piece};
use super::segment::Segment;
use memmap2::MmapMut;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which processes can map memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// This process only.
    Process,
    /// The other processes of the node, too.
    Node,
}

/// Memory from the system.
#[derive(Debug)]
pub(crate) enum Pages {
    /// Private to this process.
    Own(MmapMut),
    /// A range of a segment that holds other blocks, too.
    Piece(Piece),
    /// A segment. The file is truncated before it is unmapped, which no reader can observe.
    Segment(Segment, MmapMut),
}

/// Set once all memory is to be private to this process, because no other process can map it.
static SHARES_NONE: AtomicBool = AtomicBool::new(false);

/// Set once the refusal of segments has been reported.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Set once ranks are known to be processes that share memory.
static RANKS_SHARE: AtomicBool = AtomicBool::new(false);

/// Returns the visibility of memory that other ranks are to read.
pub(super) fn visible_to_ranks() -> Visibility {
    if RANKS_SHARE.load(Ordering::Relaxed) { Visibility::Node } else { Visibility::Process }
}

/// Records that ranks are processes that share memory.
pub fn ranks_share() {
    RANKS_SHARE.store(true, Ordering::Relaxed);
}

impl Pages {
    /// Returns `bytes` bytes from the system, and whether they are zeros; private memory if a segment is not wanted or refused.
    pub(super) fn new(bytes: usize, visibility: Visibility) -> io::Result<(Self, bool)> {
        if let Some(shared) = Self::shared(bytes, visibility) {
            return Ok(shared);
        }
        let map = MmapMut::map_anon(bytes)?;
        // Without large pages, small ones will do.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok((Self::Own(map), true))
    }

    /// As [`new`](Self::new), but only if other processes can map it.
    pub(super) fn shared(bytes: usize, visibility: Visibility) -> Option<(Self, bool)> {
        if visibility == Visibility::Process || SHARES_NONE.load(Ordering::Relaxed) {
            return None;
        }
        let shared = match bytes < arena::LONG {
            true => Piece::new(bytes).map(|piece| (Self::Piece(piece), false)),
            false => Segment::new(bytes).map(|(segment, map)| (Self::Segment(segment, map), true)),
        };
        shared.map_err(|why| refused(&why)).ok()
    }

    /// Returns which processes can map it.
    pub(super) fn visibility(&self) -> Visibility {
        if self.segment().is_some() { Visibility::Node } else { Visibility::Process }
    }

    /// Returns its segment, if it is in one, and its offset there, in bytes.
    pub(super) fn segment(&self) -> Option<(&Segment, usize)> {
        match self {
            Self::Own(_) => None,
            Self::Piece(piece) => Some(piece.segment()),
            Self::Segment(segment, _) => Some((segment, 0)),
        }
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(map) | Self::Segment(_, map) => map,
            Self::Piece(piece) => piece.bytes(),
        }
    }

    /// Returns the bytes for writing.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(map) | Self::Segment(_, map) => map,
            Self::Piece(piece) => piece.bytes_mut(),
        }
    }
}

/// Makes all later memory private to this process, because no other process can map it.
pub fn share_none() {
    SHARES_NONE.store(true, Ordering::Relaxed);
}

/// Reports once that arrays are no longer in memory that other processes can map.
fn refused(why: &io::Error) {
    if !REFUSED.swap(true, Ordering::Relaxed) {
        eprintln!(
            "polyshard: process {} gets no more memory that other processes of its node can map ({why}); data \
             elsewhere are sent in messages",
            std::process::id()
        );
    }
}
