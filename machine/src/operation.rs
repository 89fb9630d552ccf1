//! Collective operations, and the ways to carry them out.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A collective operation of a group of `n` ranks, each of which holds `b` bytes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// Each ends with the sum of all, `b` bytes (MPI 3.1, section 5.9.6).
    AllReduce,
    /// Each ends with an `n`-th of the sum of all, `b / n` bytes (MPI 3.1, section 5.10).
    ReduceScatter,
    /// Each ends with what all hold, `n b` bytes (MPI 3.1, section 5.7).
    AllGather,
    /// The first ends with the sum of all, `b` bytes (MPI 3.1, section 5.9.1).
    Reduce,
    /// Each ends with what the first holds, `b` bytes (MPI 3.1, section 5.4).
    Broadcast,
    /// Each ends with an `n`-th of what each holds, `b` bytes (MPI 3.1, section 5.8).
    AllToAll,
}

/// How a collective is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Along a ring of the group's ranks, half of the data in each direction. A group that is a whole box of a
    /// torus uses the links of all dimensions alike.
    #[default]
    Ring,
    /// All-reduce along double binary trees between members of outer levels, and chains inside the innermost
    /// (P. Sanders, J. Speck and J. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    /// Parallel Computing 35(12), 2009; so NCCL does). The other operations run along rings, as they do in NCCL.
    Tree,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllReduce => "AllReduce",
            Self::ReduceScatter => "ReduceScatter",
            Self::AllGather => "AllGather",
            Self::Reduce => "Reduce",
            Self::Broadcast => "Broadcast",
            Self::AllToAll => "AllToAll",
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
        })
    }
}
