//! What a group gathers and sums up in stages: along digits of its axes, one after the other.
//!
//! ```text
//! 2 nodes of 2 ranks, of which each has a part: a b | c d
//!
//! all-gather        between   a c, b d | a c, b d        then inside   a c b d | a c b d
//! reduce-scatter    inside    each rank the sums of what one rank of each node gets; then between
//! all-reduce        inside a reduce-scatter of pieces, then between an all-reduce of these, then inside an all-gather
//! ```
//!
//! Broadcasts and reductions to one rank take the stages as they are, see [`Group::parts_from`]. Inputs are read in place where all members
//! see them, in which case nothing is sent in any stage, and in a stage whose members see the owner's shard. Sums take the stages in any
//! case, so that they have the same bits; in a stage whose members see one another's tiles they read these in place, but for those of
//! parts that are scattered.

use super::out::combine;
use super::{OutTile, Tile, room};
use crate::comm::{Combining, Order, received_in_sum};
use crate::layout::SumKind;
use crate::shared_tiles::share_tiles;
use crate::subarray::{Place, Subarray, mail};
use crate::{DistArray, Element, Group, ReduceOp, Region, Result, Shards};
use bytemuck::{cast_slice, cast_slice_mut};
use std::ops::Range;
use std::rc::Rc;

impl<T: Element> Tile<T> {
    /// Gathers the parts of a region, which all members know.
    pub(super) fn gather_in_stages(
        &mut self,
        group: &Group,
        stages: &[Rc<Group>],
        source: Shards<'_, T>,
        region: &Region,
        parts: &[(usize, Subarray)],
    ) -> Result<()> {
        let total = mail::total(parts);
        self.outgoing.grow(total, "what a tile sends")?;
        self.incoming.grow(total, "what a tile receives")?;
        let own = &parts[group.rank()].1;
        own.copy(Place::Block, source.block(), Place::Packed, &mut self.outgoing[..own.len()]);
        let mut held = own.len();
        for (stage, along) in stages.iter().enumerate() {
            let counts = group.counts_in(stage, |member| parts[member].1.len());
            let gathered = counts.iter().sum();
            let bytes: Vec<_> = counts.iter().map(|count| count * size_of::<T>()).collect();
            let (send, into) = (&self.outgoing[..held], &mut self.incoming[..gathered]);
            along.comm().all_gather(cast_slice(send), cast_slice_mut(into), &bytes)?;
            std::mem::swap(&mut self.outgoing, &mut self.incoming);
            held = gathered;
        }
        let parts: Vec<_> = group.gathered().into_iter().map(|member| parts[member].clone()).collect();
        let buffer = room(&mut self.buffer, region);
        for ((_, part), (_, packed)) in parts.iter().zip(mail::parts(&parts, &mut self.outgoing)) {
            part.copy(Place::Packed, packed, Place::Region, buffer);
        }
        Ok(())
    }
}

impl<T: Element> OutTile<T> {
    /// Adds up the tiles of all members; the sums are then in the tile of the member `root`, or in all tiles if there is no root.
    pub(super) fn sum_in_stages(
        &mut self,
        group: &Group,
        stages: &[Rc<Group>],
        root: Option<usize>,
        op: ReduceOp,
    ) -> Result<()> {
        let all = 0..self.sums().len();
        if let Some(root) = root {
            let parts = group.parts_from(root);
            return parts.into_iter().rev().try_for_each(|(along, root)| self.sum_at_one(along, root, op));
        }
        // What each stage divides into pieces, of which this rank sums up one.
        let (mut divided, mut piece) = (Vec::new(), all);
        for along in stages[1..].iter().rev() {
            let pieces = pieces_of(&piece, along.size());
            self.sum_piece(along, &piece, &pieces, op)?;
            let own = pieces[along.rank()].clone();
            divided.push((along, std::mem::replace(&mut piece, own), pieces));
        }
        let combining = self.combining_in_stages(op);
        stages[0].comm().all_reduce(cast_slice_mut(&mut self.buffer[piece]), combining)?;
        divided.into_iter().rev().try_for_each(|(along, whole, pieces)| self.gather_pieces(along, &whole, &pieces))
    }

    /// Adds up the tiles of a stage's group into that of its member `root`.
    fn sum_at_one(&mut self, along: &Group, root: usize, op: ReduceOp) -> Result<()> {
        let sums = self.sums();
        let (len, bytes) = (sums.len(), size_of_val(sums));
        if self.is_read_in_place()
            && let Some(mut shared) = share_tiles(along, &mut self.buffer, len)?
        {
            let pieces = pieces_of(&(0..len), along.size());
            shared.sum(pieces[along.rank()].clone(), op)?;
            along.comm().count_in_place(received_in_sum(bytes, along.size(), along.rank(), Some(root), T::DTYPE, true));
            return if along.rank() == root { shared.gather(&pieces) } else { shared.release() };
        }
        let combining = self.combining_in_stages(op);
        along.comm().reduce(root, cast_slice_mut(self.sums()), combining)
    }

    /// Adds up this rank's piece of the tiles of a stage's group, which divides a part of them, into its own tile.
    fn sum_piece(&mut self, along: &Group, whole: &Range<usize>, pieces: &[Range<usize>], op: ReduceOp) -> Result<()> {
        let (own, len) = (pieces[along.rank()].clone(), self.region.len());
        if self.is_read_in_place()
            && let Some(mut shared) = share_tiles(along, &mut self.buffer, len)?
        {
            along.comm().count_in_place(own.len() * (along.size() - 1) * size_of::<T>());
            shared.sum(own, op)?;
            return shared.release();
        }
        let combining = self.combining_in_stages(op);
        self.incoming.grow(own.len(), "the sums of a piece")?;
        let into = &mut self.incoming[..own.len()];
        let terms = cast_slice(&self.buffer[whole.clone()]);
        along.comm().reduce_scatter(terms, cast_slice_mut(into), &bytes_of::<T>(pieces), combining)?;
        self.buffer[own].copy_from_slice(into);
        Ok(())
    }

    /// Gives the members of a stage's group the pieces that the others have summed up.
    fn gather_pieces(&mut self, along: &Group, whole: &Range<usize>, pieces: &[Range<usize>]) -> Result<()> {
        let (own, len) = (pieces[along.rank()].clone(), self.region.len());
        if self.is_read_in_place()
            && let Some(shared) = share_tiles(along, &mut self.buffer, len)?
        {
            along.comm().count_in_place((whole.len() - own.len()) * size_of::<T>());
            return shared.gather(pieces);
        }
        self.incoming.grow(own.len(), "the sums of a piece")?;
        let send = &mut self.incoming[..own.len()];
        send.copy_from_slice(&self.buffer[own]);
        let into = cast_slice_mut(&mut self.buffer[whole.clone()]);
        along.comm().all_gather(cast_slice(send), into, &bytes_of::<T>(pieces))
    }

    /// Whether members of a stage that see one another's tiles read them in place.
    fn is_read_in_place(&self) -> bool {
        !self.by_messages && self.order != Order::Any
    }

    /// Adds up the tiles of all members, of which each combines its part into its shard.
    pub(super) fn scatter_in_stages(
        &mut self,
        group: &Group,
        stages: &[Rc<Group>],
        parts: &[Subarray],
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let combining = self.combining_in_stages(op);
        let total = self.sums().len();
        self.outgoing.grow(total, "what is packed to be sent")?;
        self.incoming.grow(total, "what is combined into an array")?;
        let mut start = 0;
        for part in group.gathered().into_iter().map(|member| &parts[member]) {
            let packed = &mut self.outgoing[start..start + part.len()];
            part.copy(Place::Region, &self.buffer[..total], Place::Packed, packed);
            start += part.len();
        }
        let mut held = total;
        for (stage, along) in stages.iter().enumerate().rev() {
            let counts = group.counts_in(stage, |member| parts[member].len());
            let bytes: Vec<_> = counts.iter().map(|count| count * size_of::<T>()).collect();
            let own = counts[along.rank()];
            let (terms, into) = (&self.outgoing[..held], &mut self.incoming[..own]);
            along.comm().reduce_scatter(cast_slice(terms), cast_slice_mut(into), &bytes, combining)?;
            std::mem::swap(&mut self.outgoing, &mut self.incoming);
            held = own;
        }
        let own = &parts[group.rank()];
        combine(own, Place::Packed, &self.outgoing[..held], target, self.written.as_ref(), op);
        Ok(())
    }

    /// How the terms of a stage are combined: in the order of its ranks, each of which sums up a piece, unless any order will do.
    fn combining_in_stages(&self, op: ReduceOp) -> Combining {
        match self.order {
            Order::Any => Combining::any_order(T::DTYPE, op),
            Order::Ranks | Order::RanksInPieces => Combining::in_order(T::DTYPE, op, true),
        }
    }
}

/// The pieces of a range that members each sum up, by member.
fn pieces_of(whole: &Range<usize>, members: usize) -> Vec<Range<usize>> {
    let pieces = (0..members as u64).scan(whole.start, |start, member| {
        let len = SumKind::piece(whole.len() as u64, members as u64, member) as usize;
        let end = *start + len;
        Some(std::mem::replace(start, end)..end)
    });
    pieces.collect()
}

fn bytes_of<T>(pieces: &[Range<usize>]) -> Vec<usize> {
    pieces.iter().map(|piece| piece.len() * size_of::<T>()).collect()
}
