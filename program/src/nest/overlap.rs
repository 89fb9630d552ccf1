//! How much of a transfer can overlap computation.

use super::{LeafOp, NestView, Role, TransferView};
use crate::ids::LeafLoopId;

/// The number of iterations of the innermost loop around a transfer for which it sends, and for how many of these it overlaps
/// computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The iterations of the loop for which the transfer sends.
    pub iterations: i64,
    /// Those of them whose transfer overlaps the computation of another iteration, or of the part of the same one that does not read it.
    pub hidden: i64,
}

/// The unit of the slices that a leaf is cut into to make progress with messages, which decides how thin slices may be: each element has
/// the same bits as in a leaf that is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlicesOf {
    /// Rows or columns of a product of matrices.
    Panels,
    /// Products of matrices, one or more of them whole.
    Batch,
    /// Values that are written once.
    Values,
    /// Values that are combined from several terms, in an order that depends on the lengths of loops.
    Sums,
}

impl NestView<'_> {
    /// Returns how much of a transfer overlaps iterations of its loop: nothing if it begins and ends in the same iteration; else, of an
    /// input, all but the first, and that too if it is not sent or the leaf's interior is computed first; of an output, all but the last.
    /// If the interior of a rank in the middle of the mesh is empty, the transfer overlaps nothing.
    #[must_use]
    pub fn overlap(&self, transfer: &TransferView<'_>) -> Overlap {
        let extent = transfer.level.innermost().map_or(1, |counter| self.loops[counter.0].extent);
        let is_first_here = transfer.route.shift().is_some() && transfer.route.is_fetched_here();
        let iterations = extent - i64::from(is_first_here);
        let hidden = match (transfer.is_interior_first(), transfer.ahead) {
            (true, _) if self.interior_part() == 0.0 => 0,
            (true, _) => extent,
            (false, 0) => 0,
            (false, _) => extent - 1,
        };
        Overlap { iterations: iterations.max(0), hidden: hidden.max(0) }
    }

    /// Returns the loop of the leaf that is sliced if transfers are in flight while it computes: of the loops that index the output, so
    /// that each element is computed as in the whole leaf, the outermost with the most iterations. None if nothing is in flight, or the
    /// leaf cannot be sliced. If one index of the output has several variables, slicing one of these would change the order of an
    /// element's terms; none is sliced.
    #[must_use]
    pub fn sliced_along(&self) -> Option<LeafLoopId> {
        if !self.transfers.iter().any(TransferView::is_under_way) {
            return None;
        }
        let ranges = self.ranges();
        let indices = &self.kernel.target().index;
        let along = |number: LeafLoopId| {
            let dims = indices.iter().zip(&self.leaf.target.strides).filter(move |(_, strides)| strides[number.0] != 0);
            dims.map(|(index, _)| index.terms.len() == 1 && index.modulus.is_none())
        };
        let record = self.kernel.record_index();
        let is_record = |number: LeafLoopId| record.is_some_and(|name| self.leaf.loops[number.0].var == name);
        let indexes = |number: LeafLoopId| {
            along(number).next().is_some() && along(number).all(|is_alone| is_alone) && !is_record(number)
        };
        let is_cut = |&number: &LeafLoopId| match &self.leaf.op {
            LeafOp::Contraction { roles, .. } => roles[number.0] != Role::K && indexes(number),
            LeafOp::Nest => indexes(number),
            LeafOp::Products { .. } | LeafOp::Named { .. } => false,
        };
        let cut = (0..self.leaf.loops.len()).map(LeafLoopId).filter(is_cut);
        cut.rev().max_by_key(|&number| self.leaf.loops[number.0].count.bounds(&ranges).1)
    }

    /// Returns the unit of slices of the leaf along one of its loops.
    #[must_use]
    pub fn slices_along(&self, LeafLoopId(number): LeafLoopId) -> SlicesOf {
        match &self.leaf.op {
            LeafOp::Contraction { roles, .. } if roles[number] == Role::Batch => SlicesOf::Batch,
            LeafOp::Contraction { .. } => SlicesOf::Panels,
            LeafOp::Nest | LeafOp::Products { .. } | LeafOp::Named { .. } if self.kernel.writes_once() => {
                SlicesOf::Values
            }
            LeafOp::Nest | LeafOp::Products { .. } | LeafOp::Named { .. } => SlicesOf::Sums,
        }
    }

    /// Returns the fraction of a transfer that overlaps iterations of its loop, from 0 to 1.
    #[must_use]
    pub fn hidden_part(&self, transfer: &TransferView<'_>) -> f64 {
        let Overlap { iterations, hidden } = self.overlap(transfer);
        if iterations == 0 { 0.0 } else { hidden as f64 / iterations as f64 }
    }
}
