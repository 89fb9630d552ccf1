//! Terms of an output: what ranks hand one another of their tiles, and how it is combined into the shards of those who own it.
//!
//! Terms lie in this rank's tile, in others' where it sees these, or in messages. Whichever it is, one function combines them, in one
//! order, so that sums have the same bits.

use super::{Written, owned, with_others};
use crate::comm::{CHUNK, combine as combine_bytes, combine_in_chunks};
use crate::layout::{Neighbours, SumKind};
use crate::subarray::{Place, Row, Subarray, mail};
use crate::{DistArray, Element, Grid, Group, ReduceOp, Region};
use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;

/// A term of a part: the tile of the region that it is in, or the part alone, packed.
pub(super) type Term<'a, T> = (&'a [T], Place);

/// What this rank sends and receives of tiles, and what it does with it.
pub(super) struct Terms {
    pub(super) sends: Vec<(usize, Subarray)>,
    /// In ascending order of the writers.
    pub(super) receives: Vec<(usize, Rc<Subarray>)>,
    /// What this rank gets of its own tile, if anything.
    own: Option<Rc<Subarray>>,
    /// Its number among those who send.
    me: usize,
    /// Whether they are terms of one part, which are summed up before they are combined into the shard; else each is
    /// combined by itself.
    are_summed: bool,
}

impl Terms {
    /// Those of the members of a group, of which this one sums up the part `own`; `parts` are those of all.
    pub(super) fn of_group(group: &Group, own: Rc<Subarray>, parts: Vec<Subarray>) -> Self {
        let me = group.rank();
        let sends = parts.into_iter().enumerate().filter(|(to, part)| *to != me && part.len() > 0).collect();
        let receives = (0..group.size()).filter(|&from| from != me && own.len() > 0);
        Self {
            sends,
            receives: receives.map(|from| (from, Rc::clone(&own))).collect(),
            own: Some(own),
            me,
            are_summed: true,
        }
    }

    /// Those of ranks whose tile each has one owner: that of this one's `region` is the rank `to`, and this one gets the region of `from`.
    pub(super) fn of_one<T: Element>(
        grid: &Grid<'_>,
        region: &Region,
        to: usize,
        from: Option<(usize, Region)>,
        target: &DistArray<T>,
    ) -> Self {
        let me = grid.world().rank();
        let part = || owned(target, &grid.mesh().coordinates(to), region);
        let (mut sends, mut own) = (Vec::new(), None);
        match region.is_empty() {
            true => {}
            false if to == me => own = Some(Rc::new(part())),
            false => sends.push((to, part())),
        }
        let received = from.filter(|(from, region)| *from != me && !region.is_empty());
        let receives = received.map(|(from, region)| (from, Rc::new(owned_by_this(target, &region))));
        Self { sends, receives: receives.into_iter().collect(), own, me, are_summed: false }
    }

    /// Those of ranks in reach: what each owner gets of `region`, and what this rank gets of the regions of others.
    pub(super) fn in_reach<T: Element>(
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &DistArray<T>,
        region: &Region,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Self {
        let (sharding, mine) = (target.sharding(), target.coordinates());
        // Of what is partial, each rank's own term.
        let of_term = |other: &[usize], owner: &[usize], region: &Region| {
            let same = sharding.partial().iter().all(|&axis| other[axis] == mine[axis]);
            if same { Subarray::of(sharding, owner, region) } else { Subarray::default() }
        };
        let sends = with_others(grid, reach, |owner, _| of_term(owner, owner, region));
        let receives =
            with_others(grid, &reach.mirrored(), |writer, indices| of_term(writer, mine, &region_of(indices)));
        let own = Subarray::of(sharding, mine, region);
        let delivered = mail::total(&sends) + own.len();
        assert!(
            delivered >= region.len(),
            "{delivered} of the {} elements of {region} have an owner in reach, in an array sharded {sharding}; this is a \
             bug in polyshard",
            region.len()
        );
        let receives = receives.into_iter().map(|(from, part)| (from, Rc::new(part))).collect();
        Self { sends, receives, own: Some(Rc::new(own)), me: grid.world().rank(), are_summed: false }
    }

    /// Combines what has been received, and between it, in ascending order of the writers, what this rank has in its own `tile`.
    pub(super) fn combine<'a, T: Element>(
        &self,
        received: impl Iterator<Item = &'a [T]>,
        tile: &'a [T],
        target: &mut DistArray<T>,
        written: Option<&Written>,
        op: ReduceOp,
    ) {
        let parts = self.receives.iter().map(|(_, part)| &**part);
        let mut terms: SmallVec<[(&Subarray, Term<'_, T>); 8]> =
            parts.zip(received.map(|packed| (packed, Place::Packed))).collect();
        let own = self.own.as_deref().filter(|own| own.len() > 0);
        if let Some(own) = own {
            let before = self.receives.partition_point(|(from, _)| *from < self.me);
            terms.insert(before, (own, (tile, Place::Region)));
        }
        match own.filter(|_| self.are_summed) {
            Some(own) => {
                let terms: SmallVec<[_; 8]> = terms.into_iter().map(|(_, term)| term).collect();
                combine(own, &terms, target, written, op);
            }
            None => terms.into_iter().for_each(|(part, term)| combine(part, &[term], target, written, op)),
        }
    }
}

/// Where this rank, which owns all of `region`, has it.
pub(super) fn owned_by_this<T>(target: &DistArray<T>, region: &Region) -> Subarray {
    owned(target, target.coordinates(), region)
}

/// Combines the terms of a part, the first to the last, and the sum into the block.
pub(super) fn combine<T: Element>(
    part: &Subarray,
    terms: &[Term<'_, T>],
    target: &mut DistArray<T>,
    written: Option<&Written>,
    op: ReduceOp,
) {
    let block = target.block_mut();
    // Rows are longer where all is packed.
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

/// Combines the part into the block out of several tiles of its region, of each of which the elements of one piece count.
pub(super) fn combine_pieces<T: Element>(
    part: &Subarray,
    tiles: &[&[T]],
    pieces: &[Range<usize>],
    target: &mut DistArray<T>,
    written: Option<&Written>,
    op: ReduceOp,
) {
    let block = target.block_mut();
    part.rows(Place::Region, Place::Block).next(usize::MAX, |Row { from, to, len }| {
        for (tile, piece) in tiles.iter().zip(pieces) {
            let (start, end) = (from.max(piece.start), (from + len).min(piece.end));
            if start < end {
                combine_run(block, to + start - from, &tile[start..end], written, op);
            }
        }
    });
}

/// Combines `data` into the elements of the block from position `to` on, as far as they are written.
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

/// The pieces of a range that members each sum up, by member.
pub(super) fn pieces(whole: Range<usize>, members: usize) -> SmallVec<[Range<usize>; 8]> {
    let pieces = (0..members as u64).scan(whole.start, |start, member| {
        let end = *start + SumKind::piece(whole.len() as u64, members as u64, member) as usize;
        Some(std::mem::replace(start, end)..end)
    });
    pieces.collect()
}
