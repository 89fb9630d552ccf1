//! Arrays in tiles of unequal size: planned as the library plans between kernels.

use super::judge::Judge;
use super::{Answer, trial};
use crate::error::Result;
use polyshard::layout::Sharding;
use polyshard::planner::redistribution_with;
use polyshard::program::Program;
use serde_json::{Value, json};

/// Finds the program between two shardings, and runs it if `runs`.
pub(super) fn answer([source, target]: &[Sharding; 2], judge: &Judge, runs: bool) -> Result<(Program, Answer<Value>)> {
    let program = redistribution_with(source, target, judge.dtype, &judge.options(source.mesh())?)?;
    let most = program.report().traffic_bytes;
    let seconds = judge.seconds(&program)?;
    let elements = [source, target].map(|sharding| u128::from(sharding.largest_shard()));
    let elements = 2 * elements.iter().sum::<u128>();
    let run = if runs { Some(trial::run(&program, elements, |_| 0..=most)?) } else { None };
    // The maximum over ranks.
    let report = json!({ "source": source.to_string(), "target": target.to_string(), "received_bytes": most });
    Ok((program, Answer { report, seconds, run }))
}
