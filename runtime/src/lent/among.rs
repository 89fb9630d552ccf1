//! Partial sums that the members of a group lend one another: each reads the others' tiles where they are.
#![expect(unsafe_code, reason = "reads the tiles of other ranks where they are")]

use super::HIDDEN;
use crate::comm::{Header, Located, SharedMemory, combine_terms};
use crate::memory::Buffer;
use crate::{Element, Error, Group, ReduceOp, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// What members that wait for each other wait in.
const SUMS: &str = "partial sums that are read in place";

/// Elements that are summed up at a time: few enough to stay in the nearest cache.
const CHUNK: usize = 512;

/// What members have told each other, whose memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Met(Vec<Header>);

/// The tiles of the members of a group, lent until all members are [done](Self::end).
pub(crate) struct Among<'a, T: Element> {
    group: &'a Group,
    tile: LentBuffer<'a, T>,
    /// The first element of this member's tile; no slice of it is made while others read it.
    own: *mut T,
    /// The tiles in the members' order, with what keeps mapped what is mapped.
    places: SmallVec<[Located; 8]>,
    len: usize,
}

/// Lends the first `len` elements of `buffer` to the members of the group, which all lend as many; collective over the
/// group. Returns none, on all members, if one of them cannot see another's.
///
/// # Errors
/// If another rank failed.
pub(crate) fn among_members<'a, T: Element>(
    group: &'a Group,
    buffer: &'a mut Buffer<T>,
    len: usize,
    met: &mut Met,
) -> Result<Option<Among<'a, T>>> {
    let Some(memory) = group.near() else { return Ok(None) };
    let own = buffer.as_mut_ptr();
    let handle = memory.handle(own.cast_const().cast(), buffer.segment().map(|segment| (segment, 0))).unwrap_or(HIDDEN);
    memory.sync();
    let notice = [handle, 0, 0, 0];
    group.comm().tell(SUMS, notice, Some(&mut met.0))?;
    if met.0.iter().any(|header| header[0] == HIDDEN) {
        return Ok(None);
    }
    memory.sync();
    // From here on others may read it.
    let tile = LentBuffer { buffer, memory, is_back: false };
    let bytes = len * size_of::<T>();
    let find = |(member, header): (usize, &Header)| {
        let rank = group.world_rank(member);
        let failed = |why| Error::Mapping { rank, bytes, why: format!("{why}").into() };
        memory.locate(rank, header[0], bytes).map_err(failed)
    };
    let places = met.0.iter().enumerate().map(find).collect::<Result<_>>()?;
    Ok(Some(Among { group, tile, own, places, len }))
}

impl<T: Element> Among<'_, T> {
    /// Returns the tiles, in the members' order.
    pub(crate) fn tiles(&self) -> SmallVec<[&[T]; 8]> {
        self.terms(0..self.len).collect()
    }

    /// What the members have in `range`, in their order; nobody writes there meanwhile.
    fn terms(&self, range: Range<usize>) -> impl Iterator<Item = &[T]> {
        assert!(range.end <= self.len, "a part of the tiles leaves them; this is a bug of polyshard");
        self.places.iter().map(move |place| {
            let start = place.address.cast_const().cast::<T>().wrapping_add(range.start);
            // SAFETY: each member has told where its tile is, of `len` elements or more, and gives it back only when all have come
            // to `end`, or never; `places` keep mapped what is mapped. It is written in `sum` alone, which borrows `self`
            // mutably here, and there each member writes nowhere but to its own piece of its own tile, which no other member
            // reads before all have met.
            unsafe { std::slice::from_raw_parts(start, range.len()) }
        })
    }

    /// Adds up the tiles, in the members' order: the sum of each piece is then in the tile of the member whose piece it is,
    /// and what else that holds is as before. Pieces of different members do not overlap.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn sum(&mut self, piece: Range<usize>, op: ReduceOp) -> Result<()> {
        let mut sums = [T::ZERO; CHUNK];
        for start in piece.clone().step_by(CHUNK) {
            let sums = &mut sums[..CHUNK.min(piece.end - start)];
            let terms = self.terms(start..start + sums.len()).map(cast_slice);
            combine_terms(T::DTYPE, op, cast_slice_mut(sums), terms);
            // SAFETY: this is in the piece of this member, which no other reads before all have met, and in its own tile, which is
            // `len` elements long and borrowed mutably; the terms are no longer used.
            unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), self.own.wrapping_add(start), sums.len()) };
        }
        self.meet()
    }

    /// Waits until all members are done with the tiles, which are their own again.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn end(mut self) -> Result<()> {
        self.meet()?;
        self.tile.is_back = true;
        Ok(())
    }

    /// Waits until all members are here, and sees what they have written.
    fn meet(&self) -> Result<()> {
        let memory = self.tile.memory;
        memory.sync();
        self.group.comm().tell(SUMS, Header::default(), None)?;
        memory.sync();
        Ok(())
    }
}

/// A buffer that others may be reading until it is back.
struct LentBuffer<'a, T: Element> {
    buffer: &'a mut Buffer<T>,
    memory: &'a dyn SharedMemory,
    is_back: bool,
}

impl<T: Element> Drop for LentBuffer<'_, T> {
    fn drop(&mut self) {
        if !self.is_back {
            self.memory.strand(Arc::new(std::mem::take(self.buffer)));
        }
    }
}
