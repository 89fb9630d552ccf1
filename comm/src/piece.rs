//! Memory that messages in flight own.
//!
//! A piece is a range of bytes with one owner, like a vector. It can be cut in two, each with an owner of its own, and joined
//! again without a copy: a broadcast receives the segments of a tile in place, and returns the tile.
//!
//! ```text
//! [ 0 1 2 3 4 5 6 7 ]   split_off(3)   [ 0 1 2 ] [ 3 4 5 6 7 ]   join   [ 0 1 2 3 4 5 6 7 ]
//! ```
#![expect(unsafe_code, reason = "cuts one allocation into ranges with an owner each")]

use crate::Result;
use polyshard_memory::{Memory, Visibility};
use std::fmt::{self, Display};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Bytes with one owner, for non-blocking messages; a new piece is aligned for every element type.
///
/// Sent pieces are shared, as `Arc<Piece>`, so that one can be sent to several ranks at once and be read meanwhile; a piece to
/// receive into has one owner, the flight.
///
/// ```
/// use polyshard::runtime::comm::Piece;
/// let mut piece = Piece::new(5, "a message")?;
/// piece.copy_from_slice(&[1, 2, 3, 4, 5]);
/// let mut tail = piece.split_off(2);
/// tail[0] = 9;
/// assert_eq!((&*piece, &*tail), (&[1, 2][..], &[9, 4, 5][..]));
/// assert_eq!(*piece.join(tail), [1, 2, 9, 4, 5]);
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Piece {
    allocation: Arc<Allocation>,
    start: usize,
    len: usize,
}

/// The memory of all pieces that were cut from one.
struct Allocation {
    /// Its first byte.
    address: *mut u8,
    /// Never touched, but dropped with the last piece.
    _memory: Memory,
}

// SAFETY: the memory is plain bytes, which any thread may drop, and all access is through pieces, whose ranges are disjoint.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Piece {
    /// Returns a piece of `bytes` bytes for `what`, whose contents are unspecified.
    ///
    /// # Errors
    /// If they do not fit the free memory.
    pub fn new(bytes: usize, what: impl Display) -> Result<Self> {
        let (mut memory, _) = Memory::new::<u8>(bytes, what, Visibility::Process)?;
        // The bytes do not move when the `Memory` value moves.
        let address = memory.bytes_mut()[..bytes].as_mut_ptr();
        Ok(Self { allocation: Arc::new(Allocation { address, _memory: memory }), start: 0, len: bytes })
    }

    /// Returns a piece with a copy of `data`, for `what`.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn copy_of(data: &[u8], what: impl Display) -> Result<Self> {
        let mut piece = Self::new(data.len(), what)?;
        piece.copy_from_slice(data);
        Ok(piece)
    }

    /// Keeps the first `at` bytes and returns the rest, without a copy.
    ///
    /// # Panics
    /// If the piece is shorter than `at`.
    #[track_caller]
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "cannot split {} bytes at {at}", self.len);
        let rest = Self { allocation: Arc::clone(&self.allocation), start: self.start + at, len: self.len - at };
        self.len = at;
        rest
    }

    /// Undoes [`split_off`](Self::split_off).
    ///
    /// # Panics
    /// If `next` is not the part right after this piece, of the piece that both were cut from.
    #[track_caller]
    #[must_use]
    pub fn join(mut self, next: Self) -> Self {
        let adjacent = Arc::ptr_eq(&self.allocation, &next.allocation) && self.start + self.len == next.start;
        assert!(adjacent, "cannot join pieces that are not adjacent in memory");
        self.len += next.len;
        self
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is inside the allocation, whose bytes are initialised. All other pieces have other ranges: a
        // piece begins with all of an allocation, and `split_off` divides a range among two. So only this one reaches these
        // bytes, and it is borrowed.
        unsafe { std::slice::from_raw_parts(self.allocation.address.add(self.start), self.len) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this piece is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.allocation.address.add(self.start), self.len) }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: usize) -> Piece {
        Piece::copy_of(&(0..bytes).map(|i| i as u8).collect::<Vec<_>>(), "a test").expect("some bytes")
    }

    #[test]
    fn parts_on_other_threads_make_up_the_whole() {
        for bytes in [0, 1, 1000, 3 << 20] {
            let mut first = piece(bytes);
            let address = first.as_ptr();
            let mut third = first.split_off(bytes / 3 * 2);
            let mut second = first.split_off(bytes / 3);
            std::thread::scope(|scope| {
                scope.spawn(|| second.fill(7));
                scope.spawn(|| third.fill(9));
            });
            let whole = first.join(second).join(third);
            assert_eq!((whole.as_ptr(), whole.len()), (address, bytes));
            let expected = |i: usize| if i < bytes / 3 { i as u8 } else { 7 + 2 * u8::from(i >= bytes / 3 * 2) };
            assert!(whole.iter().enumerate().all(|(i, &byte)| byte == expected(i)), "{bytes} bytes");
        }
    }

    #[test]
    fn pieces_begin_where_elements_can_lie() {
        for bytes in [1, 100, 70_000, 2 << 20] {
            assert!(piece(bytes).as_ptr().addr().is_multiple_of(8), "{bytes} bytes");
        }
    }

    #[test]
    #[should_panic(expected = "are not adjacent in memory")]
    fn pieces_of_two_allocations_are_not_joined() {
        drop(piece(4).join(piece(4)));
    }

    #[test]
    #[should_panic(expected = "cannot split 4 bytes at 5")]
    fn a_piece_is_not_cut_beyond_its_end() {
        drop(piece(4).split_off(5));
    }
}
