//! The time of a lowered program, step by step, by the prices of all programs.

use super::ReduceError;
use crate::cost::Prices;
use polyshard_machine::{Algorithm, Machine, Seconds};
use polyshard_program::reduction::Lowered;
use std::fmt;

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

/// Returns the time of a lowered program that sums `bytes` on every rank.
///
/// ```
/// use polyshard::machine::Algorithm;
/// use polyshard::planner::placement::ParallelismMatrix;
/// use polyshard::planner::reduce::{AllowedMasters, Hierarchy, simulate, synthesize};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?;
/// let matrix = ParallelismMatrix::new(vec![vec![4, 16]])?;
/// let direct = &synthesize(&Hierarchy::on_machine(&machine, &matrix, &[0])?, 1, AllowedMasters::OthersIdle)[0];
/// let lowered = direct.lower(&matrix, &[0])?;
/// let simulation = simulate(&machine, &lowered, 1e9, Algorithm::Ring)?;
/// assert_eq!(simulation.steps[0].bottleneck.as_deref(), Some("the ports out of node 0"));
/// assert!((simulation.steps[0].transfer - 2.0 * 63.0 / 64.0 / 8.0).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the program is for another number of ranks than the machine has, or the bytes are negative or not finite.
pub fn simulate(
    machine: &Machine,
    lowered: &Lowered,
    bytes: f64,
    algorithm: Algorithm,
) -> Result<Simulation, ReduceError> {
    let prices = Prices::new(machine).by(algorithm);
    let steps = lowered.steps().iter().map(|step| prices.step(step, bytes));
    Ok(Simulation { steps: steps.collect::<Result<_, _>>()? })
}
