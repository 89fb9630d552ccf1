//! Collectives on a number of bytes, the algorithms that carry them out, and measurements of them.

use super::{Machine, MachineError};
use polyshard_layout::Collective;
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

/// One operation in several groups at once.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupedCollective {
    /// The operation.
    pub operation: Collective,
    /// The ranks of each group in the order of their data; each rank at most once.
    pub groups: Vec<Vec<usize>>,
    /// The bytes that each rank holds before the operation.
    pub bytes: f64,
}

impl GroupedCollective {
    /// Checks that a machine can run it.
    ///
    /// # Errors
    /// [`MachineError`] if a rank is not on the machine or twice in the groups, or the bytes are negative or not finite.
    pub fn check(&self, machine: &Machine) -> Result<(), MachineError> {
        if !(self.bytes >= 0.0 && self.bytes.is_finite()) {
            return Err(MachineError::Bytes { bytes: self.bytes.to_string() });
        }
        let devices = machine.devices();
        let mut seen = vec![false; devices];
        for group in &self.groups {
            for &rank in group {
                if rank >= devices {
                    let (group, machine) = (group.clone(), machine.name().into());
                    return Err(MachineError::NoDevice { group, rank, machine, devices });
                }
                if std::mem::replace(&mut seen[rank], true) {
                    return Err(MachineError::RankTwice { rank });
                }
            }
        }
        Ok(())
    }
}

/// A collective and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What was run.
    pub collective: GroupedCollective,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// The measured time in seconds.
    pub seconds: f64,
}
