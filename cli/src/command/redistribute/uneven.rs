//! Arrays in tiles of unequal size: planned as the library plans between kernels.

use super::judge::Judge;
use super::trial;
use crate::command::threads::Trial;
use crate::error::Result;
use polyshard::layout::Sharding;
use polyshard::planner::redistribution_with;
use polyshard::program::Program;
use serde::Serialize;

/// A program as JSON, with its time over the links and its run if requested.
#[derive(Serialize)]
pub(super) struct Answer {
    source: String,
    target: String,
    /// Maximum over ranks.
    received_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<Trial>,
    #[serde(skip)]
    pub(super) program: Program,
}

/// Finds the program between two shardings, and runs it if `runs`.
pub(super) fn answer([source, target]: &[Sharding; 2], judge: &Judge, runs: bool) -> Result<Answer> {
    let program = redistribution_with(source, target, judge.dtype(), &judge.options(source.mesh())?)?;
    let most = program.report().traffic_bytes;
    let seconds = judge.seconds(&program)?;
    let elements = [source, target].map(|sharding| u128::from(sharding.largest_shard()));
    let elements = 2 * elements.iter().sum::<u128>();
    let run = if runs { Some(trial::run(&program, elements, |_| 0..=most)?) } else { None };
    let [source, target] = [source, target].map(ToString::to_string);
    Ok(Answer { source, target, received_bytes: most, seconds, run, program })
}
