//! A shared-memory mailbox, by which ranks exchange notices and wait for each other.
//!
//! ```text
//! each writes its notice, and increments a counter  |  the last wakes the others  |  each reads all notices
//! ```
//!
//! With more ranks than cores, a waiting rank should sleep: a collective of the library polls, in several rounds, and takes cores from
//! the ranks that have not arrived. Notices alternate between two slots, so that no rank waits for readers of the previous ones.
#![expect(unsafe_code, reason = "memory that several processes write")]

use crate::{Header, Result};
use memmap2::MmapRaw;
use polyshard_memory::{Handle, Segment};
use rustix::thread::futex;
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of 8 bytes before the notices: a count of arrivals, and in its own cache line a count of completed rounds.
const HEAD: usize = 16;

/// Words of a notice.
const WORDS: usize = size_of::<Header>() / size_of::<u64>();

/// How often a rank that has a core of its own polls before it sleeps: some microseconds.
const LOOKS: usize = 2000;

/// How long a rank sleeps before it lets the library progress messages that others may wait for.
const NAP: futex::Timespec = futex::Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// The mailbox, seen from one rank.
pub(crate) struct Board {
    rank: usize,
    size: usize,
    memory: MmapRaw,
    /// The shared memory's file, on the rank that made it.
    _segment: Option<Segment>,
    looks: usize,
    turn: Cell<u32>,
}

impl Board {
    /// Makes a mailbox for `size` ranks, and returns it with the handle by which the others find it.
    pub(super) fn make(rank: usize, size: usize) -> io::Result<(Self, u64)> {
        let bytes = (HEAD + 2 * size * WORDS) * size_of::<u64>();
        let (segment, _) = Segment::new(bytes)?;
        let handle = segment.handle(0).ok_or_else(|| io::Error::other("its handle does not fit"))?;
        let memory = Handle::read(handle).map(std::process::id())?;
        Ok((Self { _segment: Some(segment), ..Self::over(memory, rank, size) }, handle))
    }

    /// Returns the mailbox that the process with this id has made.
    pub(super) fn find(process: u32, handle: u64, rank: usize, size: usize) -> io::Result<Self> {
        Ok(Self::over(Handle::read(handle).map(process)?, rank, size))
    }

    fn over(memory: MmapRaw, rank: usize, size: usize) -> Self {
        Self { rank, size, memory, _segment: None, looks: 0, turn: Cell::new(0) }
    }

    /// Returns the mailbox, at which a rank polls before it sleeps: for ranks that have a core each.
    pub(super) fn looked_at(self) -> Self {
        Self { looks: LOOKS, ..self }
    }

    /// Gives every rank the notices of all, in rank order, in `told`. Calls `progress` now and then while this rank waits.
    pub(crate) fn gather(
        &self,
        notice: Header,
        told: &mut Vec<Header>,
        progress: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let place = (self.turn.get() as usize % 2) * self.size;
        for (word, value) in self.notice(place + self.rank).iter().zip(notice) {
            word.store(value, Ordering::Relaxed);
        }
        self.meet(progress)?;
        told.clear();
        let read = |rank| {
            let words = self.notice(place + rank);
            std::array::from_fn(|nth| words[nth].load(Ordering::Relaxed))
        };
        told.extend((0..self.size).map(read));
        Ok(())
    }

    /// Waits until all ranks have called it. Their earlier writes are visible to all afterwards.
    pub(crate) fn meet(&self, mut progress: impl FnMut() -> Result<()>) -> Result<()> {
        let (arrived, turn) = (self.counter(0), self.counter(HEAD / 2));
        let before = self.turn.replace(self.turn.get().wrapping_add(1));
        if arrived.fetch_add(1, Ordering::AcqRel) as usize + 1 == self.size {
            arrived.store(0, Ordering::Relaxed);
            turn.store(before.wrapping_add(1), Ordering::Release);
            // A rank that is not woken wakes up when its sleep times out.
            let _ = futex::wake(turn, futex::Flags::empty(), u32::MAX >> 1);
            return Ok(());
        }
        for _ in 0..self.looks {
            if turn.load(Ordering::Acquire) != before {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        while turn.load(Ordering::Acquire) == before {
            if futex::wait(turn, futex::Flags::empty(), before, Some(&NAP)).is_err() {
                progress()?;
            }
        }
        Ok(())
    }

    /// Returns the counter in this word.
    fn counter(&self, word: usize) -> &AtomicU32 {
        // SAFETY: the memory has more words, is aligned for pages, and lives as long as this; all processes use it by
        // atomic operations only.
        unsafe { &*self.memory.as_ptr().cast::<AtomicU64>().add(word).cast::<AtomicU32>() }
    }

    /// Returns the words of a notice.
    fn notice(&self, place: usize) -> &[AtomicU64] {
        assert!(place < 2 * self.size, "the board has no place {place}; this is a bug in polyshard");
        // SAFETY: as above; the place is inside the memory.
        unsafe {
            let start = self.memory.as_ptr().cast::<AtomicU64>().add(HEAD + place * WORDS);
            std::slice::from_raw_parts(start, WORDS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads with a mailbox each, over the same memory.
    #[test]
    fn all_get_the_notices_of_all_every_time() {
        for size in [1, 2, 3, 7] {
            let (first, handle) = Board::make(0, size).expect("a board");
            let process = std::process::id();
            std::thread::scope(|scope| {
                for rank in 1..size {
                    scope.spawn(move || check(&Board::find(process, handle, rank, size).expect("the board")));
                }
                check(&first);
            });
        }
    }

    fn check(board: &Board) {
        let mut told = Vec::new();
        for round in 0..500_u64 {
            let notice = |rank: usize| [rank as u64, round, 1 << 40, 7, 1, 2, 3, 4];
            board.gather(notice(board.rank), &mut told, || Ok(())).expect("nothing fails");
            assert_eq!(told, (0..board.size).map(notice).collect::<Vec<_>>());
            if round % 3 == 0 {
                board.meet(|| Ok(())).expect("nothing fails");
            }
        }
    }
}
