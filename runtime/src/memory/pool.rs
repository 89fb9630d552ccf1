//! The memory that a rank keeps: what its buffers gave back, for those that come.
//!
//! Memory that is new to a process is zeroed by the system page by page as it is touched, which for a tile takes longer
//! than to receive it. So a rank keeps what it has, in large pages where the system has them, and a program that runs a
//! second time touches nothing new. A rank never has more than its buffers once had at one time: what does not fit
//! is given back to the system before more is asked for.
//!
//! Ranks are threads, or processes whose work is done by one thread, so the pool is the thread's.

use memmap2::MmapMut;
use std::cell::RefCell;

/// The bytes from which on buffers are kept: below, the allocator is as good.
pub(super) const LEAST: usize = 1 << 20;

#[derive(Default)]
struct Pool {
    /// What no buffer uses, in the order in which it was given back.
    kept: Vec<MmapMut>,
    /// Bytes of buffers that are alive.
    in_use: usize,
    /// The most that there ever were at one time.
    most: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Returns memory of at least `bytes` bytes that a buffer gave back, if any fits.
pub(super) fn reuse(bytes: usize) -> Option<MmapMut> {
    POOL.with_borrow_mut(|pool| pool.reuse(bytes))
}

/// Returns `bytes` bytes of new memory, if the system has them.
pub(super) fn map(bytes: usize) -> Option<MmapMut> {
    POOL.with_borrow_mut(|pool| pool.make_room(bytes));
    let pages = MmapMut::map_anon(bytes).ok()?;
    // Where there are no large pages, small ones do.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    POOL.with_borrow_mut(|pool| pool.count(pages.len()));
    Some(pages)
}

/// Keeps the memory of a buffer; at the end of the thread it is given back to the system.
pub(super) fn give_back(pages: MmapMut) {
    let _ = POOL.try_with(|pool| {
        if let Ok(mut pool) = pool.try_borrow_mut() {
            pool.give_back(pages);
        }
    });
}

/// Returns the bytes that this thread keeps.
pub(crate) fn kept() -> usize {
    POOL.with_borrow(Pool::kept)
}

/// Gives back to the system what this thread keeps.
pub(crate) fn release() {
    POOL.with_borrow_mut(|pool| pool.kept.clear());
}

impl Pool {
    fn kept(&self) -> usize {
        self.kept.iter().map(|pages| pages.len()).sum()
    }

    fn count(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.most = self.most.max(self.in_use);
    }

    /// The shortest that is long enough, unless most of it would lie idle.
    fn reuse(&mut self, bytes: usize) -> Option<MmapMut> {
        let fits = |pages: &MmapMut| (bytes..=bytes.saturating_mul(2)).contains(&pages.len());
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

    fn give_back(&mut self, pages: MmapMut) {
        // A buffer may be dropped by another thread than made it.
        self.in_use = self.in_use.saturating_sub(pages.len());
        self.kept.push(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pool: &mut Pool, bytes: usize) -> MmapMut {
        pool.reuse(bytes).unwrap_or_else(|| {
            pool.make_room(bytes);
            pool.count(bytes);
            MmapMut::map_anon(bytes).expect("a few pages")
        })
    }

    #[test]
    fn what_was_given_back_is_used_again() {
        let mut pool = Pool::default();
        let [first, second] = [4096, 8192].map(|bytes| pages(&mut pool, bytes));
        let address = first.as_ptr();
        pool.give_back(second);
        pool.give_back(first);
        assert_eq!(pool.kept(), 12288);
        let again = pages(&mut pool, 4000);
        assert_eq!((again.as_ptr(), pool.kept(), pool.in_use), (address, 8192, 4096));
        assert_eq!(pages(&mut pool, 4097).len(), 8192);
        assert_eq!(pool.kept(), 0);
    }

    #[test]
    fn a_rank_never_has_more_than_it_used_at_one_time() {
        let mut pool = Pool::default();
        let [first, second] = [8192, 4096].map(|bytes| pages(&mut pool, bytes));
        pool.give_back(first);
        pool.give_back(second);
        // Neither is long enough, and the first alone is not enough to give up.
        let long = pages(&mut pool, 12000);
        assert_eq!((pool.kept(), pool.in_use), (0, 12000));
        let short = pages(&mut pool, 288);
        assert_eq!((pool.in_use, pool.most), (12288, 12288));
        pool.give_back(short);
        pool.give_back(long);
        // Most of the one would lie idle, and the other is too short.
        let middle = pages(&mut pool, 5000);
        assert_eq!((middle.len(), pool.kept()), (5000, 0));
    }
}
