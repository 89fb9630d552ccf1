//! Arrays in tiles of unequal size: planned as the library plans between kernels.

use super::judge::Judge;
use super::{Answer, trial};
use crate::error::Result;
use polyshard::layout::Sharding;
use polyshard::planner::redistribution_with;
use polyshard::program::Program;
use serde::Serialize;

/// What a program moves, as JSON.
#[derive(Serialize)]
pub(super) struct UnevenMove {
    source: String,
    target: String,
    /// Maximum over ranks.
    received_bytes: u64,
}

/// Finds the program between two shardings, and runs it if `runs`.
pub(super) fn answer(
    [source, target]: &[Sharding; 2],
    judge: &Judge,
    runs: bool,
) -> Result<(Program, Answer<UnevenMove>)> {
    let program = redistribution_with(source, target, judge.dtype, &judge.options(source.mesh())?)?;
    let most = program.report().traffic_bytes;
    let seconds = judge.seconds(&program)?;
    let elements = [source, target].map(|sharding| u128::from(sharding.largest_shard()));
    let elements = 2 * elements.iter().sum::<u128>();
    let run = if runs { Some(trial::run(&program, elements, |_| 0..=most)?) } else { None };
    let [source, target] = [source, target].map(ToString::to_string);
    Ok((program, Answer { report: UnevenMove { source, target, received_bytes: most }, seconds, run }))
}
