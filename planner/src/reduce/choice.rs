//! The time of a program by the prices of all programs, and the fastest program of a reduction.
//!
//! To find it, all programs are synthesised, lowered and priced. Steps shared by several programs are priced once, so a thousand
//! programs cost little more than their few dozen distinct steps.

use super::lower::Lowering;
use super::{AllowedMasters, Hierarchy, ReduceError, ReductionProgram, synthesize};
use crate::cost::{Prices, known};
use crate::placement::ParallelismMatrix;
use polyshard_machine::{Algorithm, Machine, MachineError, Seconds};
use polyshard_program::reduction::{Collective, Lowered};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Which programs are tried, and how collectives run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceOptions {
    /// The maximum number of steps of a program.
    pub max_steps: usize,
    /// Which `Master` instructions are allowed.
    pub masters: AllowedMasters,
    /// How each collective is carried out.
    pub algorithm: Algorithm,
}

impl Default for ReduceOptions {
    /// Five steps, as in the literature, and rings.
    fn default() -> Self {
        Self { max_steps: 5, masters: AllowedMasters::default(), algorithm: Algorithm::default() }
    }
}

/// The time of a program, step by step.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Simulation {
    /// Each step's time.
    pub steps: Vec<Seconds>,
}

impl Simulation {
    /// Returns the seconds of all steps.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.steps.iter().map(Seconds::total).sum()
    }
}

impl fmt::Display for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3e} s", self.total())?;
        self.steps.iter().try_for_each(|step| write!(f, "\n  {step}"))
    }
}

/// A program with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The program.
    pub program: ReductionProgram,
    /// Its groups of ranks.
    pub lowered: Lowered,
    /// How long it takes.
    pub simulation: Simulation,
}

/// Returns all programs of a reduction of `bytes` per rank over `axes`, fastest first; of equally fast ones, those of
/// fewer steps first.
///
/// ```
/// use polyshard::planner::placement::ParallelismMatrix;
/// use polyshard::planner::reduce::{ReduceOptions, best};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[2, 16])?;
/// let matrix = ParallelismMatrix::new(vec![vec![2, 4], vec![1, 4]])?;
/// let programs = best(&machine, &matrix, &[0], 1e9, &ReduceOptions::default())?;
/// assert_eq!(programs[0].program.to_string(), "ReduceScatter-AllReduce-AllGather");
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If the matrix is not for this machine, an axis does not exist or is named twice, or the bytes are negative or not finite.
pub fn best(
    machine: &Machine,
    matrix: &ParallelismMatrix,
    axes: &[usize],
    bytes: f64,
    options: &ReduceOptions,
) -> Result<Vec<Ranked>, ReduceError> {
    if !(bytes >= 0.0 && bytes.is_finite()) {
        return Err(MachineError::Bytes { bytes: bytes.to_string() }.into());
    }
    let hierarchy = Hierarchy::on_machine(machine, matrix, axes)?;
    let mut lowering = Lowering::new(matrix, axes)?;
    let prices = Prices::new(machine).by(options.algorithm);
    // Equal groups share one allocation, which `lowering` keeps alive.
    let mut prices_of: HashMap<(Collective, usize, *const Vec<Vec<usize>>), Seconds> = HashMap::new();
    let mut ranked = Vec::new();
    for program in synthesize(&hierarchy, options.max_steps, options.masters) {
        let lowered = lowering.lower(&program)?;
        let mut simulation = Simulation::default();
        for step in lowered.steps() {
            let key = (step.collective, step.parts, Arc::as_ptr(&step.groups));
            simulation.steps.push(known(&mut prices_of, key, || prices.step(step, bytes))?);
        }
        ranked.push(Ranked { program, lowered, simulation });
    }
    ranked.sort_by_cached_key(|ranked| (rounded(ranked.simulation.total()), ranked.program.instructions.len()));
    Ok(ranked)
}

/// Seconds rounded to nine digits, as a number to sort by: the last bits depend on the order of the sums.
fn rounded(seconds: f64) -> i64 {
    // The logarithm's billionths; 0 seconds sort first.
    if seconds == 0.0 { i64::MIN } else { (seconds.ln() * 1e9).round() as i64 }
}
