//! What a reduction in rank order moves: known to the analysis, which states it, and to the runtime, which does it.

/// The elements that a reduction adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumKind {
    /// Bytes of an element.
    pub element: u64,
    /// Whether the communication library may choose the order: of integers, as any order gives the same bits, and where a
    /// program says so.
    pub any_order: bool,
}

impl SumKind {
    /// Returns whether each rank which wants the result gets the data of all, because they are so short that one
    /// collective takes less time than two, or because two ranks have no shorter way.
    ///
    /// `bytes` are those of one rank.
    #[must_use]
    pub fn is_short(bytes: u64, ranks: u64) -> bool {
        ranks <= 2 || bytes.saturating_mul(ranks) <= 1 << 16
    }

    /// Returns the elements of the piece that `rank` sums up, of `elements` in all: pieces are as equal as can be.
    #[must_use]
    pub fn piece(elements: u64, ranks: u64, rank: u64) -> u64 {
        elements / ranks + u64::from(rank < elements % ranks)
    }

    /// Returns the bytes that member `rank` of `ranks` receives when the data of all of them, `bytes` of each, are
    /// summed up at the member `root`, or at all without a root.
    ///
    /// ```
    /// use polyshard_layout::SumKind;
    /// let floats = SumKind { element: 8, any_order: false };
    /// // A quarter of the others' data, and at the root the other quarters of the sum.
    /// assert_eq!([0, 1].map(|rank| floats.received(1 << 20, 4, rank, Some(0))), [3 << 19, 3 << 18]);
    /// assert_eq!(floats.received(1 << 20, 4, 1, None), 3 << 19);
    /// // Short data are gathered whole, and those of two ranks.
    /// assert_eq!(floats.received(1 << 20, 2, 1, Some(0)), 0);
    /// assert_eq!([0, 1].map(|rank| floats.received(1 << 10, 4, rank, Some(0))), [3 << 10, 0]);
    /// ```
    #[must_use]
    pub fn received(self, bytes: u64, ranks: u64, rank: u64, root: Option<u64>) -> u64 {
        let wanted = root.is_none_or(|root| root == rank);
        if self.any_order || Self::is_short(bytes, ranks) {
            return if wanted { bytes.saturating_mul(ranks - 1) } else { 0 };
        }
        let own = Self::piece(bytes / self.element, ranks, rank) * self.element;
        own.saturating_mul(ranks - 1).saturating_add(if wanted { bytes - own } else { 0 })
    }

    /// Returns the most bytes that one rank receives when the data of `ranks` ranks, `bytes` of each, are summed up at
    /// one of them, or at all.
    ///
    /// ```
    /// use polyshard_layout::SumKind;
    /// let floats = SumKind { element: 8, any_order: false };
    /// assert_eq!(floats.most_received(1 << 20, 2), 1 << 20);
    /// assert_eq!(floats.most_received(1 << 20, 4), 2 * (1 << 20) * 3 / 4);
    /// ```
    #[must_use]
    pub fn most_received(self, bytes: u64, ranks: u64) -> u64 {
        self.received(bytes, ranks, 0, Some(0))
    }
}
