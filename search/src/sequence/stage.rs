//! Kernels of a sequence, with the values that they read and write.

use polyshard_layout::Name;
use polyshard_polyhedral::Schedule;

/// A kernel, perhaps with a schedule, and the names of the values that it reads and writes.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) schedule: Schedule,
    pub(super) inputs: Vec<Name>,
    pub(super) output: Name,
}

/// Whether a value is an input of the program.
pub(super) fn is_given(stages: &[Stage], value: Name) -> bool {
    let reads = stages.iter().position(|stage| stage.inputs.contains(&value));
    let writes = stages.iter().position(|stage| stage.output == value);
    reads.is_some_and(|reads| writes.is_none_or(|writes| reads <= writes))
}
