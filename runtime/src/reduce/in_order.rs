//! The reduction in one fixed order: the same bits wherever the ranks are.
//!
//! An all-reduce adds in an order that depends on the library, on the length and on which ranks share a node, and so do
//! steps that suit a machine. Here every rank gets one piece of all, combines it by itself in the order of the mesh's
//! coordinates, from the first to the last, and hands it on. Which rank combines which piece has no influence on the bits.
//!
//! It receives as many bytes as a reduce-scatter and an all-gather do; a rank holds the contributions to its piece at
//! once, so about as much as its data again.

use super::Comm;
use super::step::Staging;
use crate::comm::combine;
use crate::{Element, ReduceOp, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::reduction::chunk;
use std::ops::Range;

/// A group that reduces in the order of its ranks.
pub(super) struct InOrder {
    comm: Comm,
    elements: usize,
    own: Range<usize>,
    /// The bytes of each member's piece, and of this rank's from each member.
    counts: [Vec<usize>; 2],
}

impl InOrder {
    /// Returns the reduction of `elements` elements in a group, whose order is that of the mesh.
    pub(super) fn new<T: Element>(comm: Comm, elements: usize) -> Self {
        let size = comm.size();
        let piece = |member: usize| chunk(elements, size, member);
        let own = piece(comm.rank());
        let bytes = |range: Range<usize>| range.len() * size_of::<T>();
        let counts = [(0..size).map(|member| bytes(piece(member))).collect(), vec![bytes(own.clone()); size]];
        Self { comm, elements, own, counts }
    }

    /// Returns the elements of this rank's piece.
    pub(super) fn own(&self) -> usize {
        self.own.len()
    }

    /// Returns the elements of all contributions to this rank's piece.
    pub(super) fn gathered(&self) -> usize {
        self.own.len() * self.comm.size()
    }

    /// Returns the elements that this rank receives.
    pub(super) fn received(&self) -> usize {
        self.gathered() - self.own() + self.elements - self.own()
    }

    /// Reduces `data` in place.
    ///
    /// ```text
    /// two ranks      before           rank 0: a0 a1        rank 1: b0 b1
    ///                all-to-all       rank 0: a0 b0        rank 1: a1 b1       MPI 3.1, section 5.8
    ///                each by itself   rank 0: a0 + b0      rank 1: a1 + b1
    ///                all-gather       both: a0 + b0, a1 + b1                   MPI 3.1, section 5.7
    /// ```
    pub(super) fn run<T: Element>(&self, data: &mut [T], op: ReduceOp, staging: &mut Staging<T>) -> Result<()> {
        if self.elements == 0 {
            return Ok(());
        }
        let [counts, receive] = &self.counts;
        let [gathered, sum] = staging.parts();
        self.comm.all_to_all(cast_slice(data), counts, cast_slice_mut(gathered), receive)?;
        if !sum.is_empty() {
            let mut contributions = gathered.chunks_exact(sum.len());
            let first = contributions.next().expect("a group has a rank: this is a bug of polyshard");
            sum.copy_from_slice(first);
            contributions.for_each(|with| combine(T::DTYPE, op, cast_slice_mut(sum), cast_slice(with)));
        }
        self.comm.all_gather(cast_slice(sum), cast_slice_mut(data), counts)
    }
}
