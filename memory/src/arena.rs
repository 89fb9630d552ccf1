//! Arenas: segments that hold many blocks each, so that a process has few descriptors for any number of arrays.
//!
//! An arena is a sparse file in memory that takes memory only for the blocks in use. Blocks are ranges of it, allocated
//! first-fit; a freed range merges with its free neighbours. Long blocks have a segment each.
#![expect(unsafe_code, reason = "makes slices of ranges of a mapping")]

use super::segment::Segment;
use memmap2::{Advice, MmapRaw};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of an arena: the maximum that a handle can address.
const ARENA: usize = 64 << 20;

/// Minimum bytes of a block that has a segment of its own.
pub(super) const LONG: usize = ARENA / 4;

/// Minimum bytes of a block that starts at a page, and whose memory is allocated at once and freed with it.
const PAGES: usize = 1 << 16;

const PAGE: usize = 4096;

/// The arenas of this process, with the free ranges of each.
static ARENAS: Mutex<Vec<(Arc<Arena>, Free)>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Arena {
    // The file is truncated before it is unmapped, which no reader can observe.
    segment: Segment,
    map: MmapRaw,
}

/// The free ranges of an arena: the start of each, and its bytes. No two of them are adjacent.
#[derive(Debug)]
struct Free(BTreeMap<usize, usize>);

/// A range of an arena with a single owner.
#[derive(Debug)]
pub(crate) struct Piece {
    arena: Arc<Arena>,
    start: usize,
    len: usize,
}

impl Piece {
    /// Returns at least `bytes` bytes, with unspecified contents.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let lines = bytes.max(1).next_multiple_of(Segment::LINE);
        let align = if lines < PAGES { Segment::LINE } else { PAGE };
        let len = lines.next_multiple_of(align);
        let mut arenas = arenas();
        let found = arenas.iter_mut().find_map(|(arena, free)| Some((Arc::clone(arena), free.take(len, align)?)));
        let (arena, start) = match found {
            Some(found) => found,
            None => {
                let (segment, map) = Segment::sparse(ARENA)?;
                let arena = Arc::new(Arena { segment, map });
                let mut free = Free(BTreeMap::from([(0, ARENA)]));
                let start = free.take(len, align).ok_or_else(|| io::Error::other("an arena is shorter"))?;
                arenas.push((Arc::clone(&arena), free));
                (arena, start)
            }
        };
        drop(arenas);
        let piece = Self { arena, start, len };
        if len >= PAGES {
            // Allocates all pages at once: one by one, as they are touched, takes far longer. Older systems do not support it.
            match piece.arena.map.advise_range(Advice::PopulateWrite, start, len) {
                Err(why) if why.kind() != io::ErrorKind::InvalidInput => return Err(why),
                _ => {}
            }
        }
        Ok(piece)
    }

    /// Returns the segment, and the offset of this piece in it.
    pub(super) fn segment(&self) -> (&Segment, usize) {
        (&self.arena.segment, self.start)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let address = self.arena.map.as_ptr().wrapping_add(self.start);
        // SAFETY: the range is in the arena, which is mapped as long as this lives, and no other piece overlaps it. Other processes
        // write there only while a redistribution has borrowed mutably the block that this memory belongs to.
        unsafe { std::slice::from_raw_parts(address, self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let address = self.arena.map.as_mut_ptr().wrapping_add(self.start);
        // SAFETY: as above; and this is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(address, self.len) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.len >= PAGES {
            self.arena.segment.empty(self.start, self.len);
        }
        let mut arenas = arenas();
        let Some(at) = arenas.iter().position(|(arena, _)| Arc::ptr_eq(arena, &self.arena)) else { return };
        arenas[at].1.put_back(self.start, self.len);
        // The last arena is kept for later blocks.
        if arenas.len() > 1 && arenas[at].1.is_all() {
            arenas.swap_remove(at);
        }
    }
}

fn arenas() -> MutexGuard<'static, Vec<(Arc<Arena>, Free)>> {
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Free {
    /// Allocates `len` bytes that start at a multiple of `align` from the first range that has room for them.
    fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let fits = |(&start, &bytes): (&usize, &usize)| {
            let at = start.next_multiple_of(align);
            (at + len <= start + bytes).then_some((start, bytes, at))
        };
        let (start, bytes, at) = self.0.iter().find_map(fits)?;
        self.0.remove(&start);
        let rest = start + bytes - (at + len);
        for (start, bytes) in [(start, at - start), (at + len, rest)] {
            if bytes > 0 {
                self.0.insert(start, bytes);
            }
        }
        Some(at)
    }

    fn put_back(&mut self, mut start: usize, mut len: usize) {
        if let Some((&before, &bytes)) = self.0.range(..start).next_back()
            && before + bytes == start
        {
            self.0.remove(&before);
            (start, len) = (before, bytes + len);
        }
        if let Some(bytes) = self.0.remove(&(start + len)) {
            len += bytes;
        }
        self.0.insert(start, len);
    }

    fn is_all(&self) -> bool {
        self.0.get(&0) == Some(&ARENA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_makes_one_range_with_its_neighbours() {
        let mut free = Free(BTreeMap::from([(0, ARENA)]));
        let taken = [100, 64, 4096].map(|len| free.take(len, 64).expect("there is room"));
        assert_eq!(taken, [0, 128, 192]);
        assert_eq!(free.take(ARENA, 64), None);
        assert_eq!(free.take(4096, 4096), Some(8192), "at a page");
        for (start, len) in [(192, 4096), (0, 100), (8192, 4096), (128, 64)] {
            free.put_back(start, len);
        }
        assert!(free.is_all(), "{free:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pieces_are_apart_and_share_a_segment() {
        let pieces = [1, 100, 1 << 20].map(|bytes| Piece::new(bytes).expect("a piece"));
        for (nth, piece) in pieces.iter().enumerate() {
            let (segment, start) = piece.segment();
            assert!(segment.handle(start).is_some());
            for other in &pieces[..nth] {
                let (before, after) = if other.start < start { (other, piece) } else { (piece, other) };
                assert!(!Arc::ptr_eq(&piece.arena, &other.arena) || before.start + before.len <= after.start);
            }
        }
        let longest = Piece::new(LONG).expect("a piece");
        assert_eq!(longest.bytes().len(), LONG);
    }
}
