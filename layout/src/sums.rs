//! How much data a reduction in rank order moves: shared by the analysis, which states it, and the runtime, which carries it out.

use crate::DType;

/// The element size and the algorithm of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumKind {
    /// Bytes of an element.
    pub element: u64,
    /// Whether each rank sums one piece and sends it on; otherwise the ranks that need the result receive the data of all. A
    /// reduction whose order the communication library chooses counts as the latter.
    pub in_pieces: bool,
}

impl SumKind {
    /// Returns the kind for elements of `dtype`. Integers never count as summed in pieces: the library chooses their order, since
    /// every order gives the same bits.
    #[must_use]
    pub fn new(dtype: DType, in_pieces: bool) -> Self {
        Self { element: dtype.size() as u64, in_pieces: in_pieces && dtype.is_float() }
    }

    /// Returns whether each rank should sum one piece, where each holds `bytes` bytes to be summed. If these are so few that one
    /// collective is faster than two, each rank that needs the result receives the data of all. So do two ranks, for which pieces
    /// save nothing.
    #[must_use]
    pub fn pays_in_pieces(bytes: u64, ranks: u64) -> bool {
        ranks > 2 && bytes.saturating_mul(ranks) > 1 << 16
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
    /// use polyshard::layout::SumKind;
    /// let pieces = SumKind { element: 8, in_pieces: true };
    /// // A quarter of the others' data, and at the root the other quarters of the sum.
    /// assert_eq!([0, 1].map(|rank| pieces.received(1 << 20, 4, rank, Some(0))), [3 << 19, 3 << 18]);
    /// assert_eq!(pieces.received(1 << 20, 4, 1, None), 3 << 19);
    /// let whole = SumKind { in_pieces: false, ..pieces };
    /// assert_eq!([0, 1].map(|rank| whole.received(1 << 10, 4, rank, Some(0))), [3 << 10, 0]);
    /// ```
    #[must_use]
    pub fn received(self, bytes: u64, ranks: u64, rank: u64, root: Option<u64>) -> u64 {
        let wanted = root.is_none_or(|root| root == rank);
        if !self.in_pieces {
            return if wanted { bytes.saturating_mul(ranks - 1) } else { 0 };
        }
        let own = Self::piece(bytes / self.element, ranks, rank) * self.element;
        own.saturating_mul(ranks - 1).saturating_add(if wanted { bytes - own } else { 0 })
    }

    /// Returns the bytes that the busiest rank receives when the data of `ranks` ranks, `bytes` of each, are summed at one of
    /// them, or at all.
    ///
    /// ```
    /// use polyshard::layout::SumKind;
    /// let pieces = SumKind { element: 8, in_pieces: true };
    /// assert_eq!(pieces.most_received(1 << 20, 4), 2 * (1 << 20) * 3 / 4);
    /// assert_eq!(SumKind { in_pieces: false, ..pieces }.most_received(1 << 20, 2), 1 << 20);
    /// ```
    #[must_use]
    pub fn most_received(self, bytes: u64, ranks: u64) -> u64 {
        self.received(bytes, ranks, 0, Some(0))
    }
}
