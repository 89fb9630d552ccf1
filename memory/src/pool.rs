//! A rank's memory pool: memory freed by its arrays and buffers, for later ones to reuse.
//!
//! The system zeroes memory that is new to a process page by page as it is touched, which for a tile takes longer than to
//! receive it. So a rank keeps its memory, in large pages if the system has them, and a second run of a program touches
//! no new pages. A rank never holds more than the peak use of its arrays and buffers: excess memory is returned to the
//! system before more is requested.
//!
//! Ranks are threads, or processes whose work is done by one thread, so each thread has its own pool. Memory dropped by
//! another thread is returned to the system.

use super::pages::{Pages, Visibility};
use std::cell::RefCell;
use std::io;

/// Minimum bytes of memory that is kept: below it, the allocator is as good.
pub(super) const LEAST: usize = 1 << 20;

#[derive(Default)]
struct Pool {
    /// Unused memory, in the order in which it was freed.
    kept: Vec<Pages>,
    /// Bytes that are in use.
    in_use: usize,
    /// The maximum of `in_use` so far.
    most: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Returns freed memory of at least `bytes` bytes, if any fits.
pub(super) fn reuse(bytes: usize, visibility: Visibility) -> Option<Pages> {
    POOL.with_borrow_mut(|pool| pool.reuse(bytes, visibility))
}

/// Returns `bytes` bytes of new memory, and whether they are zeros.
pub(super) fn map(bytes: usize, visibility: Visibility) -> io::Result<(Pages, bool)> {
    POOL.with_borrow_mut(|pool| pool.make_room(bytes));
    let (pages, zeros) = Pages::new(bytes, visibility)?;
    POOL.with_borrow_mut(|pool| pool.count(pages.len()));
    Ok((pages, zeros))
}

/// Keeps memory for reuse; at the end of the thread it is returned to the system.
pub(super) fn give_back(pages: Pages) {
    let _ = POOL.try_with(|pool| {
        if let Ok(mut pool) = pool.try_borrow_mut() {
            pool.give_back(pages);
        }
    });
}

/// Returns the bytes that this thread keeps.
pub fn kept() -> usize {
    POOL.with_borrow(Pool::kept)
}

/// Returns the memory that this thread keeps to the system.
pub fn release() {
    POOL.with_borrow_mut(|pool| pool.kept.clear());
}

impl Pool {
    fn kept(&self) -> usize {
        self.kept.iter().map(Pages::len).sum()
    }

    fn count(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.most = self.most.max(self.in_use);
    }

    /// Returns the shortest that is long enough, unless more than half of it would be unused.
    fn reuse(&mut self, bytes: usize, visibility: Visibility) -> Option<Pages> {
        let fits = |pages: &Pages| {
            pages.visibility() == visibility && (bytes..=bytes.saturating_mul(2)).contains(&pages.len())
        };
        let fitting = self.kept.iter().enumerate().filter(|(_, pages)| fits(pages));
        let (best, _) = fitting.min_by_key(|(_, pages)| pages.len())?;
        let pages = self.kept.remove(best);
        self.count(pages.len());
        Some(pages)
    }

    fn make_room(&mut self, bytes: usize) {
        let most = self.most.max(self.in_use.saturating_add(bytes));
        let mut all = self.in_use.saturating_add(bytes).saturating_add(self.kept());
        while all > most && !self.kept.is_empty() {
            all -= self.kept.remove(0).len();
        }
    }

    fn give_back(&mut self, pages: Pages) {
        self.in_use = self.in_use.saturating_sub(pages.len());
        // Memory from another thread would exceed this thread's peak.
        if self.in_use + self.kept() + pages.len() <= self.most {
            self.kept.push(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pool: &mut Pool, bytes: usize) -> Pages {
        pool.reuse(bytes, Visibility::Process).unwrap_or_else(|| {
            pool.make_room(bytes);
            pool.count(bytes);
            Pages::new(bytes, Visibility::Process).expect("a few pages").0
        })
    }

    #[test]
    fn what_was_given_back_is_used_again() {
        let mut pool = Pool::default();
        let [first, second] = [4096, 8192].map(|bytes| pages(&mut pool, bytes));
        let address = first.bytes().as_ptr();
        pool.give_back(second);
        pool.give_back(first);
        assert_eq!(pool.kept(), 12288);
        let again = pages(&mut pool, 4000);
        assert_eq!((again.bytes().as_ptr(), pool.kept(), pool.in_use), (address, 8192, 4096));
        assert!(pool.reuse(4097, Visibility::Node).is_none(), "nobody else sees it");
        assert_eq!(pages(&mut pool, 4097).len(), 8192);
        assert_eq!(pool.kept(), 0);
    }

    #[test]
    fn a_rank_never_has_more_than_it_used_at_one_time() {
        let mut pool = Pool::default();
        let [first, second] = [8192, 4096].map(|bytes| pages(&mut pool, bytes));
        pool.give_back(first);
        pool.give_back(second);
        // Neither is long enough, and freeing only the first is not enough.
        let long = pages(&mut pool, 12000);
        assert_eq!((pool.kept(), pool.in_use), (0, 12000));
        let short = pages(&mut pool, 288);
        assert_eq!((pool.in_use, pool.most), (12288, 12288));
        pool.give_back(short);
        pool.give_back(long);
        // Most of the one would be unused, and the other is too short.
        let middle = pages(&mut pool, 5000);
        assert_eq!((middle.len(), pool.kept()), (5000, 0));
    }

    #[test]
    fn what_another_thread_had_is_not_kept() {
        let mut pool = Pool::default();
        pool.give_back(Pages::new(4096, Visibility::Process).expect("a page").0);
        assert_eq!((pool.kept(), pool.in_use), (0, 0));
    }
}
