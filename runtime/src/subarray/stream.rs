//! Copies of rows with streaming stores, which bypass the cache, into memory larger than it.
//!
//! An ordinary store reads the line that it writes to. For a tile that does not fit the cache that is a third
//! of all traffic, and it evicts the contents of the cache; streaming stores do neither. They pay only for long
//! rows in large tiles, so a [`Copier`] is made for each tile and uses ordinary stores for anything else.
#![expect(unsafe_code, reason = "writes through pointers, with vector instructions where the machine has them")]

use std::ptr;

/// Minimum bytes of a tile that is written with streaming stores.
const LARGE: usize = 4 << 20;

/// Minimum bytes of a row whose own cache lines outweigh those that it shares with its neighbours.
const LONG: usize = 512;

/// Copies rows into memory that other ranks may see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copier {
    streams: bool,
}

impl Copier {
    /// The copier whose writes stay in the cache.
    pub(crate) const ORDINARY: Self = Self { streams: false };

    /// Returns the copier for tiles of `tile` bytes.
    pub(crate) fn new(tile: usize) -> Self {
        Self { streams: tile >= LARGE && available() }
    }

    /// Copies `from` to the bytes starting at `to`.
    ///
    /// # Safety
    /// As many bytes starting at `to` must be writable and not overlap `from`, and no other code may read or
    /// write them before [`finish`](Self::finish) has returned.
    #[inline]
    unsafe fn copy(self, from: &[u8], to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match from.len() {
                #[cfg(target_arch = "x86_64")]
                len if self.streams && len >= LONG => x86::copy(from.as_ptr(), to, len),
                // Rows of one element, as cyclic arrays have, without a call.
                8 => to.cast::<[u8; 8]>().write(*from.as_ptr().cast()),
                4 => to.cast::<[u8; 4]>().write(*from.as_ptr().cast()),
                len => ptr::copy_nonoverlapping(from.as_ptr(), to, len),
            }
        }
    }

    /// Copies `from` to `to`, which must have the same length.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub(crate) fn put(self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "a row is as long on both sides: this is a bug in polyshard");
        // SAFETY: `to` is as long and borrowed mutably. Only this rank sees it, and a processor sees its own
        // streaming stores in order.
        unsafe { self.copy(from, to.as_mut_ptr()) }
    }

    /// Makes the copied data visible to other ranks, once this rank synchronises with them.
    pub(crate) fn finish(self) {
        #[cfg(target_arch = "x86_64")]
        if self.streams {
            // Streaming stores are not ordered by operations that order other stores, such as releasing a lock.
            // SAFETY: every x86-64 machine has this instruction.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn available() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn available() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    use std::ptr;

    /// Bytes of a vector.
    const WIDTH: usize = size_of::<__m256i>();

    /// Bytes of one turn of the loop: two lines, so that loads run ahead of stores.
    const TURN: usize = 4 * WIDTH;

    /// Copies `len` bytes, which do not overlap, whole lines of them with streaming stores.
    ///
    /// # Safety
    /// As many bytes must be readable starting at `from` and writable starting at `to`, and the machine must have AVX2.
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        // Up to the first line that belongs to this row alone.
        let head = to.align_offset(2 * WIDTH).min(len);
        let turns = (len - head) / TURN;
        let tail = head + turns * TURN;
        // SAFETY: head, turns and tail are contiguous and `len` bytes together; vectors are stored at multiples of their width.
        unsafe {
            ptr::copy_nonoverlapping(from, to, head);
            for turn in 0..turns {
                let at = head + turn * TURN;
                let (from, to) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
                let vectors = [0, 1, 2, 3].map(|nth| _mm256_loadu_si256(from.add(nth)));
                for (nth, vector) in vectors.into_iter().enumerate() {
                    _mm256_stream_si256(to.add(nth), vector);
                }
            }
            ptr::copy_nonoverlapping(from.add(tail), to.add(tail), len - tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every byte of a row is copied, and none beside it, at any start and length.
        #[test]
        fn rows_are_copied_exactly(start in 0usize..70, to in 0usize..70, len in 0usize..2000, streams: bool) {
            let source: Vec<u8> = (0..start + len).map(|i| (i * 7 + i / 256) as u8).collect();
            let mut target = vec![255u8; to + len + 70];
            let copier = Copier { streams: streams && available() };
            // SAFETY: `target` has `len` bytes starting at `to`, and does not overlap `source`.
            unsafe { copier.copy(&source[start..], target[to..].as_mut_ptr()) };
            copier.finish();
            prop_assert_eq!(&target[to..to + len], &source[start..]);
            prop_assert!(target[..to].iter().chain(&target[to + len..]).all(|&byte| byte == 255));
        }
    }
}
