//! Collective operations.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A collective operation of a group of ranks, each of which holds a block.
///
/// Plans are made of them, machines are measured by them, and programs run them.
///
/// ```text
///                  before                         after
/// Slice            rank 0: a b    rank 1: a b     rank 0: a      rank 1: b
/// Permute          rank 0: a      rank 1: b       rank 0: b      rank 1: a
/// Broadcast        rank 0: a      rank 1:         rank 0: a      rank 1: a
/// AllGather        rank 0: a      rank 1: b       rank 0: a b    rank 1: a b
/// AllToAll         rank 0: a0 a1  rank 1: b0 b1   rank 0: a0 b0  rank 1: a1 b1
/// Reduce           rank 0: a      rank 1: b       rank 0: a+b    rank 1:
/// ReduceScatter    rank 0: a0 a1  rank 1: b0 b1   rank 0: a0+b0  rank 1: a1+b1
/// AllReduce        rank 0: a      rank 1: b       rank 0: a+b    rank 1: a+b
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Collective {
    /// Every rank keeps a part of its block; nothing moves.
    Slice,
    /// Every rank sends its block to one rank (MPI 3.1, section 3.10).
    Permute,
    /// Every rank gets the first one's block (MPI 3.1, section 5.4).
    Broadcast,
    /// Every rank gets the blocks of all (MPI 3.1, section 5.7).
    AllGather,
    /// Every rank cuts its block into one part for each (MPI 3.1, section 5.8).
    AllToAll,
    /// Every pair of ranks swaps the elements that the other lacks: an all-to-all of parts of any lengths (MPI 3.1,
    /// section 5.8).
    Exchange,
    /// The first rank gets the sum (MPI 3.1, section 5.9.1).
    Reduce,
    /// Every rank gets a part of the sum (MPI 3.1, section 5.10).
    ReduceScatter,
    /// Every rank gets the sum (MPI 3.1, section 5.9.6).
    AllReduce,
}

impl Collective {
    /// Returns whether it sums blocks.
    #[must_use]
    pub fn reduces(self) -> bool {
        matches!(self, Self::Reduce | Self::ReduceScatter | Self::AllReduce)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}
