//! One collective operation in several groups at once, on a given number of bytes.

use super::{Machine, MachineError};
use polyshard_layout::Collective;

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
