//! Shared tiles: partial sums that the members of a group publish to each other and read in place.
#![expect(unsafe_code, reason = "reads the tiles of other ranks where they are")]

use crate::comm::{CHUNK, Header, Located, SharedMemory, combine_in_chunks};
use crate::memory::Buffer;
use crate::publish::{Block, HIDDEN, Peers, Purpose, Round, published};
use crate::{Element, Error, Group, ReduceOp, Result};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The tiles of the members of a group, published until all members [release](Self::release) them.
pub(crate) struct SharedTiles<'a, T: Element> {
    group: &'a Group,
    tile: PublishedBuffer<'a, T>,
    round: Round,
    /// How often the members have waited for each other.
    waits: usize,
    /// The first element of this member's tile; no slice of it is made while others read it.
    own: *mut T,
    /// The tiles in the members' order, with the mappings that keep them readable.
    places: SmallVec<[Located; 8]>,
    len: usize,
}

/// Publishes the first `len` elements of `buffer` to the members of the group, which all publish the same number; collective over the
/// group. Returns `None`, on all members, if one of them cannot see another's tile.
///
/// # Errors
/// If another rank failed.
pub(crate) fn share_tiles<'a, T: Element>(
    group: &'a Group,
    buffer: &'a mut Buffer<T>,
    len: usize,
) -> Result<Option<SharedTiles<'a, T>>> {
    let Some(memory) = group.near() else { return Ok(None) };
    let (own, bytes) = (buffer.as_mut_ptr(), len * size_of::<T>());
    // Others may read it now, whether or not this function succeeds.
    let mut tile = PublishedBuffer { buffer, memory, is_released: false };
    let round = Round { purpose: Purpose::PartialSums, dtype: T::DTYPE, program: len as u32 };
    let rank = |member| group.world_rank(member);
    let peers = Peers { comm: group.comm(), memory, rank: &rank, are_all: false };
    let place = tile.buffer.segment();
    let headers =
        group.publisher().publish(&peers, &round, &[Block { address: own.cast_const().cast(), bytes, place }])?;
    if headers.iter().any(|header| published(header, 0).0 == HIDDEN) {
        // All members see that, and none reads.
        tile.is_released = true;
        return Ok(None);
    }
    let find = |(member, header): (usize, &Header)| {
        let (rank, (handle, theirs)) = (group.world_rank(member), published(header, 0));
        if theirs != bytes {
            return Err(Error::Mismatch(format!(
                "rank {rank} publishes a tile of {theirs} bytes, where others have {bytes}"
            )));
        }
        if bytes == 0 {
            // An empty tile has no address.
            let address = std::ptr::NonNull::<T>::dangling().as_ptr().cast();
            return Ok(Located { address, mapping: None });
        }
        let failed = |why| Error::Mapping { rank, bytes, why: format!("{why}").into() };
        memory.locate(rank, handle, bytes).map_err(failed)
    };
    let places = headers.iter().enumerate().map(find).collect::<Result<_>>()?;
    Ok(Some(SharedTiles { group, tile, round, waits: 0, own, places, len }))
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
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn sum(&mut self, piece: Range<usize>, op: ReduceOp) -> Result<()> {
        let terms = |chunk: Range<usize>| self.terms(piece.start + chunk.start..piece.start + chunk.end);
        combine_in_chunks(op, piece.len(), &mut [T::ZERO; CHUNK], terms, |chunk, sums| {
            let into = self.own.wrapping_add(piece.start + chunk.start);
            // SAFETY: this is in the piece of this member, which no other reads before all have waited, and in its own tile, which is `len`
            // elements long and borrowed mutably; the terms of the chunk are no longer used.
            unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), into, sums.len()) };
        });
        self.wait()
    }

    /// Copies the other members' pieces, which do not overlap, into this member's tile, and waits until all members are done with the
    /// tiles, as [`release`](Self::release) does.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn gather(self, pieces: &[Range<usize>]) -> Result<()> {
        let me = self.group.rank();
        for (member, (place, piece)) in self.places.iter().zip(pieces).enumerate() {
            assert!(piece.end <= self.len, "a piece of the tiles leaves them; this is a bug in polyshard");
            if member != me {
                let theirs = place.address.cast_const().cast::<T>().wrapping_add(piece.start);
                // SAFETY: the other member's tile is at this address, as in `terms`, and no member writes to its piece of it: each writes
                // to its own tile alone, in the others' pieces. The two tiles are disjoint, and both have `len` elements.
                unsafe { std::ptr::copy_nonoverlapping(theirs, self.own.wrapping_add(piece.start), piece.len()) };
            }
        }
        self.release()
    }

    /// Waits until all members are done with the tiles, which are exclusively their own again.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn release(mut self) -> Result<()> {
        self.wait()?;
        self.tile.is_released = true;
        Ok(())
    }

    /// Waits until all members have called this, and sees their writes.
    fn wait(&mut self) -> Result<()> {
        let rank = |member| self.group.world_rank(member);
        let peers = Peers { comm: self.group.comm(), memory: self.tile.memory, rank: &rank, are_all: false };
        self.waits += 1;
        self.group.publisher().wait(&peers, &self.round, self.waits)
    }
}

/// A buffer that others may be reading until it is released.
struct PublishedBuffer<'a, T: Element> {
    buffer: &'a mut Buffer<T>,
    memory: &'a dyn SharedMemory,
    is_released: bool,
}

impl<T: Element> Drop for PublishedBuffer<'_, T> {
    fn drop(&mut self) {
        if !self.is_released {
            self.memory.strand(Arc::new(std::mem::take(self.buffer)));
        }
    }
}
