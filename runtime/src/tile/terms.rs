//! Terms of an output: the parts of tiles that ranks send each other, and how they are combined into the owners' shards.
//!
//! Terms are in this rank's tile, in others' tiles that it sees, or in messages. In each case the same function combines them, in the same
//! order, so that sums have the same bits.

use super::Written;
use crate::comm::{CHUNK, combine as combine_bytes, combine_in_chunks};
use crate::exchange::Exchange;
use crate::layout::SumKind;
use crate::subarray::{Place, Row, Subarray};
use crate::{DistArray, Element, ReduceOp};
use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;
use std::ops::Range;

/// A term of a part: the tile of the region that contains it, or the part alone, packed.
pub(super) type Term<'a, T> = (&'a [T], Place);

/// How terms that arrive are combined into the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// They are terms of one part, which are summed up first.
    Sum,
    /// Each of them is combined separately.
    Each,
}

/// The array that tiles are combined into.
pub(crate) struct Target<'t, T> {
    pub(crate) array: &'t mut DistArray<T>,
    pub(crate) op: ReduceOp,
    /// The elements that are written, unless all are.
    pub(crate) written: Option<&'t Written>,
}

impl<T: Element> Target<'_, T> {
    /// Combines the received terms, and among them, in ascending order of the writers, the part that this rank keeps of its own `tile`.
    pub(super) fn combine_received<'a>(
        &mut self,
        exchange: &Exchange,
        fold: Fold,
        received: impl Iterator<Item = &'a [T]>,
        tile: &'a [T],
    ) {
        let parts = exchange.receives.iter().map(|(_, part)| &**part);
        let mut terms: SmallVec<[(&Subarray, Term<'_, T>); 8]> =
            parts.zip(received.map(|packed| (packed, Place::Packed))).collect();
        let own = exchange.kept();
        if let Some(own) = own {
            let before = exchange.receives.partition_point(|(from, _)| *from < exchange.me);
            terms.insert(before, (own, (tile, Place::Region)));
        }
        match own.filter(|_| fold == Fold::Sum) {
            Some(own) => self.combine(own, &terms.into_iter().map(|(_, term)| term).collect::<SmallVec<[_; 8]>>()),
            None => terms.into_iter().for_each(|(part, term)| self.combine(part, &[term])),
        }
    }

    /// Adds up the terms of a part, from the first to the last, and combines the sum into the block.
    pub(super) fn combine(&mut self, part: &Subarray, terms: &[Term<'_, T>]) {
        let &mut Self { ref mut array, op, written } = self;
        let block = array.block_mut();
        // Rows are longer if all terms are packed.
        let are_packed = terms.iter().all(|(_, place)| *place == Place::Packed);
        let mut rows = part.rows(if are_packed { Place::Packed } else { Place::Region }, Place::Block);
        if let [(data, _)] = terms {
            rows.next(usize::MAX, |Row { from, to, len }| combine_run(block, to, &data[from..][..len], written, op));
            return;
        }
        let (mut packed, mut sums) = (0, [T::ZERO; CHUNK]);
        rows.next(usize::MAX, |Row { from, to, len }| {
            let first = |place| if place == Place::Packed { packed } else { from };
            let terms = |chunk: Range<usize>| {
                terms.iter().map(move |&(data, place)| &data[first(place) + chunk.start..][..chunk.len()])
            };
            let put = |chunk: Range<usize>, sums: &[T]| combine_run(block, to + chunk.start, sums, written, op);
            combine_in_chunks(op, len, &mut sums, terms, put);
            packed += len;
        });
    }

    /// Combines the part into the block from several tiles of its region; each tile contributes the elements of its piece.
    pub(super) fn combine_pieces(&mut self, part: &Subarray, tiles: &[&[T]], pieces: &[Range<usize>]) {
        let &mut Self { ref mut array, op, written } = self;
        let block = array.block_mut();
        part.rows(Place::Region, Place::Block).next(usize::MAX, |Row { from, to, len }| {
            for (tile, piece) in tiles.iter().zip(pieces) {
                let (start, end) = (from.max(piece.start), (from + len).min(piece.end));
                if start < end {
                    combine_run(block, to + start - from, &tile[start..end], written, op);
                }
            }
        });
    }
}

/// Combines `data` into the elements of the block starting at position `to`, as far as they are written.
fn combine_run<T: Element>(block: &mut [T], to: usize, data: &[T], written: Option<&Written>, op: ReduceOp) {
    let mut put = |run: Range<usize>| {
        let data = &data[run.start - to..][..run.len()];
        combine_bytes(T::DTYPE, op, cast_slice_mut(&mut block[run]), cast_slice(data));
    };
    match written {
        None => put(to..to + data.len()),
        Some(written) => written.runs(to..to + data.len(), put),
    }
}

/// The pieces of a range that members each add up, by member.
pub(super) fn pieces(whole: Range<usize>, members: usize) -> SmallVec<[Range<usize>; 8]> {
    let pieces = (0..members as u64).scan(whole.start, |start, member| {
        let end = *start + SumKind::piece(whole.len() as u64, members as u64, member) as usize;
        Some(std::mem::replace(start, end)..end)
    });
    pieces.collect()
}
