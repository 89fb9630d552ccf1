//! `--draw`: the mesh in each step of the cheapest sequence, with the groups that talk.

use crate::cli::command::devices::{self, Panel, Talk};
use crate::machine::units::{bytes, seconds};
use crate::planner::product::{ProductPlan, Step};
use std::collections::BTreeSet;
use std::path::Path;

/// Draws the best sequence of a plan to a file, with a panel for each step; the mesh's axes are its levels.
///
/// # Errors
/// If there are too many ranks, or the file cannot be written.
pub(super) fn draw(path: &Path, plan: &ProductPlan) -> Result<(), String> {
    let mesh = plan.product().mesh();
    let levels: Vec<_> = mesh.as_slice().iter().map(|axis| (axis.name.to_string(), axis.extent)).collect();
    let panel = |(step, cost): (&Step, &crate::planner::product::StepCost)| {
        // Ranks that work alone are in no group.
        let groups: BTreeSet<_> = (0..mesh.size()).map(|rank| step.members(rank)).collect();
        let groups: Vec<_> = groups.into_iter().filter(|group| group.len() > 1).collect();
        let cost = format!("{} in {}", bytes(cost.bytes), seconds(cost.sequential()));
        Panel {
            title: step.to_string(),
            note: format!("{}: {cost}", devices::count_groups(&groups)),
            groups,
            talk: Talk::Around,
        }
    };
    let best = plan.best();
    let panels = best.steps().iter().zip(best.costs()).map(panel).collect();
    devices::draw(path, &plan.product().to_string(), &levels, &[panels])
}
