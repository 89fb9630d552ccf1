//! Kernels of a sequence with the values that they read and write.

use polyshard_layout::Name;
use polyshard_planner::Sequence;
use polyshard_polyhedral::Schedule;
use polyshard_program::Program;

/// A kernel, perhaps with a schedule, and the names of the values that it reads and writes.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) schedule: Schedule,
    pub(super) inputs: Vec<Name>,
    pub(super) output: Name,
}

/// The sequence of the first stages, one for each of these programs.
pub(super) fn in_sequence(stages: &[Stage], programs: &[&Program]) -> Sequence {
    stages.iter().zip(programs).fold(Sequence::new(), |sequence, (stage, program)| {
        sequence.stage(program, stage.inputs.iter().copied(), stage.output)
    })
}

/// Whether a value is there before the first stage.
pub(super) fn is_given(stages: &[Stage], value: Name) -> bool {
    let reads = stages.iter().position(|stage| stage.inputs.contains(&value));
    let writes = stages.iter().position(|stage| stage.output == value);
    reads.is_some_and(|reads| writes.is_none_or(|writes| reads <= writes))
}
