//! The mesh in each step of a product, with the groups that communicate.

use crate::DrawError;
use crate::devices::{Panel, Talk, count_groups, devices};
use polyshard_machine::units::{bytes, seconds};
use polyshard_planner::product::{ProductPlan, ProductStep, StepCost};
use std::collections::BTreeSet;

/// Returns a panel for each step of the best sequence of a plan; the axes of the mesh are drawn as levels.
///
/// ```
/// use polyshard_layout::{DType, Mesh};
/// use polyshard_planner::product::{Product, Roofline};
/// let mesh = Mesh::new([("X", 4)]);
/// let sizes = [("I", 512), ("J", 512), ("K", 512)];
/// let product = Product::new("A[I_X, J] * B[J_X, K] -> C[I_X, K]", &mesh, &sizes, DType::Bf16)?;
/// let plan = product.plan(&Roofline::preset("tpu-v5e", &mesh, DType::Bf16)?)?;
/// let drawing = polyshard_draw::product(&plan)?;
/// assert!(drawing.contains("one group of 4: "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`DrawError::Devices`] if there are too many ranks for a page.
pub fn product(plan: &ProductPlan) -> Result<String, DrawError> {
    let mesh = plan.product().mesh();
    let levels: Vec<_> = mesh.as_slice().iter().map(|axis| (axis.name.to_string(), axis.extent)).collect();
    let panel = |(step, cost): (&ProductStep, &StepCost)| {
        // Ranks that work alone are in no group.
        let groups: BTreeSet<_> = (0..mesh.size()).map(|rank| step.members(rank)).collect();
        let groups: Vec<_> = groups.into_iter().filter(|group| group.len() > 1).collect();
        let cost = format!("{} in {}", bytes(cost.bytes), seconds(cost.sequential()));
        Panel {
            title: step.to_string(),
            note: format!("{}: {cost}", count_groups(&groups)),
            groups,
            talk: Talk::Around,
        }
    };
    let best = plan.best();
    let panels = best.steps().iter().zip(best.costs()).map(panel).collect();
    devices(&plan.product().to_string(), &levels, &[panels])
}
