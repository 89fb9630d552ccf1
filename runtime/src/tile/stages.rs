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
//! Broadcasts and reductions to one rank take the stages as they are, see [`Group::parts_from`]. Whoever sees the shards or tiles
//! of all members reads inputs in place, in which case nothing is sent in any stage; sums take the stages in any case, so that they have
//! the same bits.

use super::out::combine;
use super::{OutTile, Tile, room};
use crate::comm::{Combining, Order};
use crate::layout::SumKind;
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
    /// Adds up the tiles of all members, of which the one with the number `root`, or each if there is none, gets the sums into
    /// its tile.
    pub(super) fn sum_in_stages(
        &mut self,
        group: &Group,
        stages: &[Rc<Group>],
        root: Option<usize>,
        op: ReduceOp,
    ) -> Result<()> {
        let combining = self.combining_in_stages(op);
        if let Some(root) = root {
            let sums = cast_slice_mut(self.sums());
            return group
                .parts_from(root)
                .into_iter()
                .rev()
                .try_for_each(|(along, root)| along.comm().reduce(root, sums, combining));
        }
        // What each stage divides into pieces, of which this rank sums up one.
        let mut divided: Vec<(&Group, Range<usize>, Vec<usize>)> = Vec::new();
        let mut piece = 0..self.sums().len();
        for along in stages[1..].iter().rev() {
            let (size, rank) = (along.size(), along.rank());
            let counts: Vec<_> =
                (0..size).map(|nth| SumKind::piece(piece.len() as u64, size as u64, nth as u64) as usize).collect();
            let start = piece.start + counts[..rank].iter().sum::<usize>();
            let own = start..start + counts[rank];
            let bytes: Vec<_> = counts.iter().map(|count| count * size_of::<T>()).collect();
            self.incoming.grow(own.len(), "the sums of a piece")?;
            let into = &mut self.incoming[..own.len()];
            let terms = cast_slice(&self.buffer[piece.clone()]);
            along.comm().reduce_scatter(terms, cast_slice_mut(into), &bytes, combining)?;
            self.buffer[own.clone()].copy_from_slice(into);
            divided.push((&**along, std::mem::replace(&mut piece, own), bytes));
        }
        stages[0].comm().all_reduce(cast_slice_mut(&mut self.buffer[piece.clone()]), combining)?;
        for (along, whole, bytes) in divided.into_iter().rev() {
            let own = &mut self.incoming[..piece.len()];
            own.copy_from_slice(&self.buffer[piece.clone()]);
            along.comm().all_gather(cast_slice(own), cast_slice_mut(&mut self.buffer[whole.clone()]), &bytes)?;
            piece = whole;
        }
        Ok(())
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
