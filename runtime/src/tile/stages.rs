//! Gathers and sums of a group in stages: along digits of its axes, one after the other.
//!
//! ```text
//! 2 nodes of 2 ranks, each of which has a part: a b | c d
//!
//! all-gather        between   a c, b d | a c, b d        then inside   a c b d | a c b d
//! reduce-scatter    inside    each rank the sums for one rank of each node; then between
//! all-reduce        inside a reduce-scatter of pieces, then between an all-reduce of these, then inside an all-gather
//! ```
//!
//! Broadcasts and reductions to one rank take the stages as they are, see [`Group::parts_from`]. Inputs are read in place if all members
//! see them, in which case nothing is sent in any stage, and in each stage whose members see the owner's shard. Sums always take the
//! stages, so that they have the same bits; members of a stage that see each other's tiles read these in place, except when parts of the
//! sums are scattered to their owners.

use super::link::Link;
use super::sums::parts_of_target;
use super::terms::{Target, pieces};
use crate::comm::{SumAlgorithm, received_in_sum};
use crate::memory::split_mut;
use crate::shared_tiles::{SharedTiles, share_tiles};
use crate::subarray::{Place, Subarray, in_order};
use crate::{Element, Group, ReduceOp, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use std::mem::{replace, swap};
use std::ops::Range;

impl<T: Element> Link<T> {
    /// Adds up the tiles of all members; the sums are then in the tile of the member `root`, or in all tiles if there is no root.
    pub(super) fn sum_in_stages(&mut self, group: &Group, root: Option<usize>, op: ReduceOp) -> Result<()> {
        let (stages, all) = (group.stages(), 0..self.tile.sums().len());
        if let Some(root) = root {
            let parts = group.parts_from(root);
            return parts.into_iter().rev().try_for_each(|(along, root)| self.sum_at_one(along, root, op));
        }
        // The ranges that each stage divides into pieces, of which this rank sums up one.
        let (mut divided, mut piece) = (Vec::new(), all);
        for along in stages[1..].iter().rev() {
            let pieces = pieces(piece.clone(), along.size());
            self.sum_piece(along, &piece, &pieces, op)?;
            let own = pieces[along.rank()].clone();
            divided.push((along, replace(&mut piece, own), pieces));
        }
        let combining = self.combining(op);
        stages[0].comm().all_reduce(cast_slice_mut(&mut self.tile.buffer[piece]), combining)?;
        divided.into_iter().rev().try_for_each(|(along, whole, pieces)| self.gather_pieces(along, &whole, &pieces))
    }

    /// Adds up the tiles of a stage's group into that of its member `root`.
    fn sum_at_one(&mut self, along: &Group, root: usize, op: ReduceOp) -> Result<()> {
        let sums = self.tile.sums();
        let (len, bytes, by) = (sums.len(), size_of_val(sums), self.how.sums);
        if let Some(mut shared) = self.share_in_stage(along)? {
            let pieces = pieces(0..len, along.size());
            shared.sum(pieces[along.rank()].clone(), op)?;
            along.comm().count_in_place(received_in_sum(bytes, along.size(), along.rank(), Some(root), T::DTYPE, by));
            return if along.rank() == root { shared.gather(&pieces) } else { shared.release() };
        }
        let combining = self.combining(op);
        Ok(along.comm().reduce(root, cast_slice_mut(self.tile.sums()), combining)?)
    }

    /// Adds up this rank's piece of the tiles of a stage's group, which divides a part of them, into its own tile.
    fn sum_piece(&mut self, along: &Group, whole: &Range<usize>, pieces: &[Range<usize>], op: ReduceOp) -> Result<()> {
        let own = pieces[along.rank()].clone();
        if let Some(mut shared) = self.share_in_stage(along)? {
            along.comm().count_in_place(own.len() * (along.size() - 1) * size_of::<T>());
            shared.sum(own, op)?;
            return shared.release();
        }
        let combining = self.combining(op);
        self.incoming.grow(own.len(), "the sums of a piece")?;
        let into = &mut self.incoming[..own.len()];
        let terms = cast_slice(&self.tile.buffer[whole.clone()]);
        along.comm().reduce_scatter(terms, cast_slice_mut(into), &bytes_of::<T>(pieces), combining)?;
        self.tile.buffer[own].copy_from_slice(into);
        Ok(())
    }

    /// Gives the members of a stage's group the pieces that the others have summed up.
    fn gather_pieces(&mut self, along: &Group, whole: &Range<usize>, pieces: &[Range<usize>]) -> Result<()> {
        let own = pieces[along.rank()].clone();
        if let Some(shared) = self.share_in_stage(along)? {
            along.comm().count_in_place((whole.len() - own.len()) * size_of::<T>());
            return shared.gather(pieces);
        }
        self.incoming.grow(own.len(), "the sums of a piece")?;
        let send = &mut self.incoming[..own.len()];
        send.copy_from_slice(&self.tile.buffer[own]);
        let into = cast_slice_mut(&mut self.tile.buffer[whole.clone()]);
        Ok(along.comm().all_gather(cast_slice(send), into, &bytes_of::<T>(pieces))?)
    }

    /// Publishes the tile to the members of a stage, if they read each other's tiles in place and can see them.
    fn share_in_stage<'a>(&'a mut self, along: &'a Group) -> Result<Option<SharedTiles<'a, T>>> {
        let is_read_in_place = !self.how.by_messages && self.how.sums != SumAlgorithm::Library;
        let len = self.tile.region().len();
        if is_read_in_place { share_tiles(along, &mut self.tile.buffer, len) } else { Ok(None) }
    }

    /// Adds up the tiles of all members, each of which combines its part into its shard, along one stage after the other, the last one
    /// first; along the group itself if it has no stages. Parts that follow each other in the tile are sent from it, else they are packed.
    pub(super) fn scatter_in_stages(&mut self, group: &Group, target: &mut Target<'_, T>) -> Result<()> {
        let (parts, combining) = (parts_of_target(group, target.array, self.tile.region()), self.combining(target.op));
        let (stages, members) = (group.stages(), group.gathered());
        let mut held = self.tile.sums().len();
        let scattered = || members.iter().map(|&member| &parts[member]);
        let tile = &self.tile.buffer[..held];
        let is_in_order = in_order(scattered(), Place::Region);
        if !is_in_order {
            self.outgoing.grow(held, "packed messages")?;
            for (part, room) in scattered().zip(split_mut(&mut self.outgoing, scattered().map(Subarray::len))) {
                part.copy(Place::Region, tile, Place::Packed, room);
            }
        }
        for (stage, along) in stages.iter().enumerate().rev() {
            let bytes = group.counts_in(stage, |member| parts[member].len() * size_of::<T>());
            let is_first = stage + 1 == stages.len();
            if !is_first {
                swap(&mut self.outgoing, &mut self.incoming);
            }
            let terms = if is_first && is_in_order { tile } else { &self.outgoing[..held] };
            held = bytes[along.rank()] / size_of::<T>();
            self.incoming.grow(held, "terms to combine into an array")?;
            let into = cast_slice_mut(&mut self.incoming[..held]);
            along.comm().reduce_scatter(cast_slice(terms), into, &bytes, combining)?;
        }
        target.combine(&parts[group.rank()], &[(&self.incoming[..held], Place::Packed)]);
        Ok(())
    }
}

fn bytes_of<T>(pieces: &[Range<usize>]) -> Vec<usize> {
    pieces.iter().map(|piece| piece.len() * size_of::<T>()).collect()
}
