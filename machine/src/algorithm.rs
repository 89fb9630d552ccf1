//! Algorithms for collectives.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a collective is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Along a ring of the group's ranks, half of the data in each direction. A group that is a whole box of a torus
    /// uses the links of all dimensions equally.
    #[default]
    Ring,
    /// All-reduce along double binary trees between members of outer levels, and chains inside the innermost (P.
    /// Sanders, J. Speck and J. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
    /// Computing 35(12), 2009), as NCCL does. The other operations run along rings, also as in NCCL.
    Tree,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
        })
    }
}
