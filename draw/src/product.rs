//! The mesh in each step of a product, with the groups that communicate.

use crate::DrawError;
use crate::devices::{Panel, Talk, count_groups, devices};
use polyshard_layout::Mesh;

/// A joint operation of ranks on a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshStep {
    /// The operation, as text.
    pub title: String,
    /// Its cost, as text.
    pub cost: String,
    /// The ranks that communicate; those that work alone are in no group.
    pub groups: Vec<Vec<usize>>,
}

/// Returns a panel for each step of a product with this title; the axes of the mesh are drawn as levels.
///
/// ```
/// use polyshard::draw::MeshStep;
/// use polyshard::prelude::*;
/// let (title, cost) = ("all_gather(X) B[J_X, K] -> B[J, K]".into(), "393.2 kB in 8.74 us".into());
/// let step = MeshStep { title, cost, groups: vec![vec![0, 1, 2, 3]] };
/// let drawing = polyshard::draw::product("A[I_X, J] * B[J_X, K] -> C[I_X, K]", &Mesh::new([("X", 4)]), &[step])?;
/// assert!(drawing.contains("one group of 4: "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`DrawError::Devices`] if there are too many ranks for a page.
pub fn product(title: &str, mesh: &Mesh, steps: &[MeshStep]) -> Result<String, DrawError> {
    let levels: Vec<_> = mesh.as_slice().iter().map(|axis| (axis.name.to_string(), axis.extent)).collect();
    let panel = |step: &MeshStep| Panel {
        title: step.title.clone(),
        note: format!("{}: {}", count_groups(&step.groups), step.cost),
        groups: step.groups.clone(),
        talk: Talk::Around,
    };
    devices(title, &levels, &[steps.iter().map(panel).collect()])
}
