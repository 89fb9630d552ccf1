//! The part of an array that ranks need, and which of its owners count: the question that a route answers.

use crate::nest::Depth;
use polyshard_layout::Sharding;
use polyshard_program::{Access, CounterId, Ranges, Region, Symbol};

/// A region that ranks need at a depth, and the sharding of its array.
pub(crate) struct Need<'a> {
    pub depth: Depth,
    pub region: &'a Region,
    pub sharding: &'a Sharding,
    /// The accesses that read the region, each perhaps only a part of it; empty if the whole region counts.
    pub reads: &'a [&'a Access],
    /// Whether ranks write the region, so that time runs backwards.
    pub written: bool,
}

impl Need<'_> {
    /// The region in the iteration of the loop `counter` that no neighbour serves, so that its owner must.
    pub(crate) fn needs_owner(&self, counter: CounterId, ranges: &Ranges) -> Region {
        let value = if self.written { ranges.counters[counter.0] - 1 } else { 0 };
        self.region.fixed(Symbol::Counter(counter), value, ranges)
    }
}

/// Which owners of an element count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhichOwners {
    /// The one from which it is read.
    Source,
    /// All of them.
    Every,
}
