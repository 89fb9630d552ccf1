//! The devices of a machine in each step of a reduction's program.

use crate::DrawError;
use crate::devices::{Panel, Talk, count_groups, devices};
use polyshard_machine::units::seconds;
use polyshard_machine::{Machine, Seconds};
use polyshard_planner::reduce::Ranked;
use polyshard_program::reduction::{Collective, LoweredStep};

/// Returns a picture of which devices communicate in each step of a reduction's program on a machine.
///
/// ```
/// use polyshard::planner::placement::ParallelismMatrix;
/// use polyshard::planner::reduce::{ReduceOptions, best};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[2, 4])?;
/// let matrix = ParallelismMatrix::new(vec![vec![2, 4]])?;
/// let programs = best(&machine, &matrix, &[0], 1e9, &ReduceOptions::default())?;
/// let drawing = polyshard::draw::reduction("the fastest", &machine, &programs[0])?;
/// assert!(drawing.contains("ReduceScatter in 2 groups of 4"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`DrawError::Devices`] if the machine has too many for a page.
///
/// # Panics
/// If the program is for more devices than the machine has.
pub fn reduction(title: &str, machine: &Machine, program: &Ranked) -> Result<String, DrawError> {
    let levels: Vec<_> = machine.levels().iter().map(|level| (level.name.clone(), level.count)).collect();
    devices(title, &levels, &[reduction_panels(program)])
}

/// Returns a panel for each step of a reduction's program, with its time and its bottleneck.
#[must_use]
pub fn reduction_panels(program: &Ranked) -> Vec<Panel> {
    let panel = |(step, time): (&LoweredStep, &Seconds)| {
        let bottleneck = time.bottleneck.as_ref().map(|what| format!(", {what}")).unwrap_or_default();
        Panel {
            title: format!("{} in {}", step.collective, count_groups(&step.groups)),
            note: seconds(time.total()) + &bottleneck,
            groups: step.groups.to_vec(),
            talk: match step.collective {
                Collective::Reduce | Collective::Broadcast => Talk::FromFirst,
                _ => Talk::Around,
            },
        }
    };
    program.lowered.steps().iter().zip(&program.simulation.steps).map(panel).collect()
}
