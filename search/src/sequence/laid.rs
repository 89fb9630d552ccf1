//! Meshes, and the ways to lay the loops of several kernels over them.

use crate::variant::Along;
use polyshard_layout::Mesh;

/// A mesh, and the ways to lay each kernel over it, by their bounds.
pub(super) struct Laid {
    pub(super) mesh: Mesh,
    /// By stage: a lower bound on the seconds, and the loop for each axis. A stage with a given schedule has one way.
    pub(super) ways: Vec<Vec<(f64, Along)>>,
}

impl Laid {
    /// Lower bound on the seconds of every program on this mesh.
    pub(super) fn least(&self) -> f64 {
        self.ways.iter().map(|ways| ways[0].0).sum()
    }
}
