//! The programs of a reduction as JSON.
//!
//! Groups list ranks of the machine in the order of their data; the first rank of each is its root.

use super::Reduction;
use super::trial::Trial;
use polyshard::machine::Algorithm;
use polyshard::planner::placement::ParallelismMatrix;
use polyshard::planner::reduce::Ranked;
use polyshard::program::reduction::Collective;
use serde::Serialize;

/// The answer as JSON.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    machine: &'a str,
    hierarchy: Vec<usize>,
    matrix: &'a ParallelismMatrix,
    reduce: &'a [usize],
    bytes: f64,
    algorithm: Algorithm,
    /// The number of programs, listed or not.
    total: usize,
    /// Fastest first.
    programs: Vec<ProgramAnswer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Trial>,
}

/// One program.
#[derive(Serialize)]
struct ProgramAnswer<'a> {
    name: String,
    /// Its instructions with their levels and forms.
    program: String,
    steps: Vec<StepAnswer<'a>>,
    seconds: f64,
    /// Speed relative to the direct reduction.
    speed: Option<f64>,
}

/// One step of a program.
#[derive(Serialize)]
struct StepAnswer<'a> {
    op: Collective,
    groups: &'a [Vec<usize>],
    seconds: f64,
    /// The resource that limits it.
    bottleneck: Option<&'a str>,
}

impl<'a> Answer<'a> {
    /// Returns the answer with the first `listed` programs and the outcome of their run.
    pub(super) fn new(reduction: &'a Reduction, algorithm: Algorithm, listed: usize, run: Option<Trial>) -> Self {
        Self {
            machine: reduction.machine.name(),
            hierarchy: reduction.matrix.hierarchy(),
            matrix: &reduction.matrix,
            reduce: &reduction.axes,
            bytes: reduction.bytes,
            algorithm,
            total: reduction.programs.len(),
            programs: reduction.programs[..listed].iter().map(|ranked| program(reduction, ranked)).collect(),
            run,
        }
    }
}

fn program<'a>(reduction: &'a Reduction, ranked: &'a Ranked) -> ProgramAnswer<'a> {
    let steps = ranked.lowered.steps().iter().zip(&ranked.simulation.steps);
    let steps = steps.map(|(step, time)| StepAnswer {
        op: step.collective,
        groups: &step.groups,
        seconds: time.total(),
        bottleneck: time.bottleneck.as_deref(),
    });
    ProgramAnswer {
        name: ranked.program.to_string(),
        program: ranked.program.describe(&reduction.hierarchy),
        steps: steps.collect(),
        seconds: ranked.simulation.total(),
        speed: reduction.speed(ranked),
    }
}
