//! How much data a reduction in rank order moves: shared by the analysis, which states it, and the runtime, which carries it out.

use crate::DType;

/// How the members of a group add up their terms, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumAlgorithm {
    /// The communication library chooses both.
    Library,
    /// In rank order: every member that wants the sums receives all terms and adds them up.
    GatherTerms,
    /// In rank order: each member adds up one piece, and sends it to the members that want the sums.
    ReduceScatterGather,
}

impl SumAlgorithm {
    /// Returns the algorithm for sums in rank order, where each of `ranks` ranks holds `bytes` bytes to be summed. If these are so few
    /// that one collective is faster than two, each rank that needs the sums receives the terms of all. So do two ranks, for which
    /// pieces save nothing.
    #[must_use]
    pub fn in_order(bytes: u64, ranks: u64) -> Self {
        match ranks > 2 && bytes.saturating_mul(ranks) > 1 << 16 {
            true => Self::ReduceScatterGather,
            false => Self::GatherTerms,
        }
    }
}

/// The element size and the algorithm of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumKind {
    /// Bytes of an element.
    pub element: u64,
    /// The algorithm; a library counts as gathering all terms.
    pub by: SumAlgorithm,
}

impl SumKind {
    /// Returns the kind for elements of `dtype`. The library always sums integers, since every order gives the same bits.
    #[must_use]
    pub fn new(dtype: DType, by: SumAlgorithm) -> Self {
        Self { element: dtype.size() as u64, by: if dtype.is_float() { by } else { SumAlgorithm::Library } }
    }

    /// Returns the number of elements in the piece that `rank` sums, of `elements` in all; pieces differ by at most one element.
    #[must_use]
    pub fn piece(elements: u64, ranks: u64, rank: u64) -> u64 {
        elements / ranks + u64::from(rank < elements % ranks)
    }

    /// Returns the bytes that member `rank` of `ranks` receives when the data of all of them, `bytes` of each, are summed at the
    /// member `root`, or at all members without a root.
    ///
    /// ```
    /// use polyshard::layout::{SumAlgorithm, SumKind};
    /// let pieces = SumKind { element: 8, by: SumAlgorithm::ReduceScatterGather };
    /// // A quarter of the others' data, and at the root the other quarters of the sum.
    /// assert_eq!([0, 1].map(|rank| pieces.received(1 << 20, 4, rank, Some(0))), [3 << 19, 3 << 18]);
    /// assert_eq!(pieces.received(1 << 20, 4, 1, None), 3 << 19);
    /// let whole = SumKind { by: SumAlgorithm::GatherTerms, ..pieces };
    /// assert_eq!([0, 1].map(|rank| whole.received(1 << 10, 4, rank, Some(0))), [3 << 10, 0]);
    /// ```
    #[must_use]
    pub fn received(self, bytes: u64, ranks: u64, rank: u64, root: Option<u64>) -> u64 {
        let wanted = root.is_none_or(|root| root == rank);
        if self.by != SumAlgorithm::ReduceScatterGather {
            return if wanted { bytes.saturating_mul(ranks - 1) } else { 0 };
        }
        let own = Self::piece(bytes / self.element, ranks, rank) * self.element;
        own.saturating_mul(ranks - 1).saturating_add(if wanted { bytes - own } else { 0 })
    }

    /// Returns the bytes that the busiest rank receives when the data of `ranks` ranks, `bytes` of each, are summed at one of
    /// them, or at all.
    ///
    /// ```
    /// use polyshard::layout::{SumAlgorithm, SumKind};
    /// let pieces = SumKind { element: 8, by: SumAlgorithm::ReduceScatterGather };
    /// assert_eq!(pieces.most_received(1 << 20, 4), 2 * (1 << 20) * 3 / 4);
    /// assert_eq!(SumKind { by: SumAlgorithm::GatherTerms, ..pieces }.most_received(1 << 20, 2), 1 << 20);
    /// ```
    #[must_use]
    pub fn most_received(self, bytes: u64, ranks: u64) -> u64 {
        self.received(bytes, ranks, 0, Some(0))
    }
}
