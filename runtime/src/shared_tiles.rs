//! Shared tiles: partial sums that the members of a group publish to each other and read in place.
#![expect(unsafe_code, reason = "reads the tiles of other ranks where they are")]

use crate::comm::{CHUNK, Located, combine_in_chunks};
use crate::memory::Buffer;
use crate::publish::{Block, HIDDEN, Published, Purpose, Round, published};
use crate::{Element, Group, ReduceOp, Result};
use smallvec::SmallVec;
use std::ops::Range;

/// The tiles of the members of a group, published until all members [release](Self::release) them.
pub(crate) struct SharedTiles<'a, T: Element> {
    me: usize,
    tile: Published<'a, &'a mut Buffer<T>>,
    /// The first element of this member's tile; no slice of it is made while others read it.
    own: *mut T,
    /// The tiles in the members' order, with the mappings that keep them readable.
    places: SmallVec<[Located; 8]>,
    len: usize,
}

/// Publishes the first `len` elements of `buffer` to the members of the group, which all publish the same number; collective over the
/// group. Returns `None`, on all members, if one of them cannot see another's tile.
pub(crate) fn share_tiles<'a, T: Element>(
    group: &'a Group,
    buffer: &'a mut Buffer<T>,
    len: usize,
) -> Result<Option<SharedTiles<'a, T>>> {
    let Some(peers) = group.peers() else { return Ok(None) };
    let (own, bytes) = (buffer.as_mut_ptr(), len * size_of::<T>());
    let round = Round { purpose: Purpose::PartialSums, dtype: T::DTYPE, program: len as u32 };
    // Others may read it now, whether or not this function succeeds.
    let tile = Published::new(group.publisher(), peers, round, buffer);
    let place = tile.lent().and_then(|buffer| buffer.segment());
    let headers = tile.publish(&[Block { address: own.cast_const().cast(), bytes, place }])?;
    if headers.iter().any(|header| published(header, 0).0 == HIDDEN) {
        tile.withdraw();
        return Ok(None);
    }
    let places = headers.iter().enumerate().map(|(member, header)| peers.locate(member, published(header, 0), bytes));
    let places = places.collect::<Result<_>>()?;
    Ok(Some(SharedTiles { me: group.rank(), tile, own, places, len }))
}

impl<T: Element> SharedTiles<'_, T> {
    /// Returns the tiles, in the members' order.
    pub(crate) fn tiles(&self) -> SmallVec<[&[T]; 8]> {
        self.terms(0..self.len).collect()
    }

    /// The members' elements in `range`, in the members' order; no member writes there meanwhile.
    fn terms(&self, range: Range<usize>) -> impl Iterator<Item = &[T]> {
        assert!(range.end <= self.len, "a part of the tiles leaves them; this is a bug in polyshard");
        self.places.iter().map(move |place| {
            let start = place.address.cast_const().cast::<T>().wrapping_add(range.start);
            // SAFETY: each member has published the address of its tile, of `len` elements of `T`, and takes it back only when all have
            // reached `release`, or never; `places` keep the mappings alive. It is written in `sum` alone, which borrows `self` mutably
            // here, and there each member writes only to its own piece of its own tile, which no other member reads before all have waited,
            // and in `gather`, after which no slices are made.
            unsafe { std::slice::from_raw_parts(start, range.len()) }
        })
    }

    /// Adds up the tiles, in the members' order: the sum of each piece is then in the tile of the member whose piece it is, and the rest of
    /// that tile is unchanged. Pieces of different members do not overlap.
    pub(crate) fn sum(&mut self, piece: Range<usize>, op: ReduceOp) -> Result<()> {
        let terms = |chunk: Range<usize>| self.terms(piece.start + chunk.start..piece.start + chunk.end);
        combine_in_chunks(op, piece.len(), &mut [T::ZERO; CHUNK], terms, |chunk, sums| {
            let into = self.own.wrapping_add(piece.start + chunk.start);
            // SAFETY: this is in the piece of this member, which no other reads before all have waited, and in its own tile, which is `len`
            // elements long and borrowed mutably; the terms of the chunk are no longer used.
            unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), into, sums.len()) };
        });
        self.tile.wait()
    }

    /// Copies the other members' pieces, which do not overlap, into this member's tile, and waits until all members are done with the
    /// tiles, as [`release`](Self::release) does.
    pub(crate) fn gather(self, pieces: &[Range<usize>]) -> Result<()> {
        for (member, (place, piece)) in self.places.iter().zip(pieces).enumerate() {
            assert!(piece.end <= self.len, "a piece of the tiles leaves them; this is a bug in polyshard");
            if member != self.me {
                let theirs = place.address.cast_const().cast::<T>().wrapping_add(piece.start);
                // SAFETY: the other member's tile is at this address, as in `terms`, and no member writes to its piece of it: each writes
                // to its own tile alone, in the others' pieces. The two tiles are disjoint, and both have `len` elements.
                unsafe { std::ptr::copy_nonoverlapping(theirs, self.own.wrapping_add(piece.start), piece.len()) };
            }
        }
        self.release()
    }

    /// Waits until all members are done with the tiles, which are exclusively their own again.
    pub(crate) fn release(self) -> Result<()> {
        self.tile.release()
    }
}
