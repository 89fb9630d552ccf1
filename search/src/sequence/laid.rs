//! Meshes, and the ways to lay the loops of several kernels over them.

use crate::grid::Bounds;
use crate::variant::{Along, Variant, Ways};
use polyshard_layout::Mesh;
use polyshard_program::Kernel;

/// A mesh, and the ways to lay each kernel over it, by their bounds.
pub(super) struct Laid {
    pub(super) mesh: Mesh,
    /// By stage: a lower bound on the seconds, and the loop for each axis. A stage with a given schedule has one way.
    pub(super) ways: Vec<Vec<(f64, Along)>>,
}

impl Laid {
    /// Lays kernels over a mesh; `None` if a kernel has no way. Each kernel has bounds, and runs `times` times. `given`
    /// are the lower bounds, in seconds, of stages with given schedules.
    pub(super) fn new(
        mesh: Mesh,
        kernels: &[&Kernel],
        (bounds, times): (&[Bounds<'_>], &[f64]),
        given: &[Option<f64>],
    ) -> Option<Self> {
        let of_stage = |nth: usize| {
            if let Some(least) = given[nth] {
                return Some(vec![(least, Along { axes: Vec::new() })]);
            }
            let ways = Variant::all(&mesh, kernels[nth], Ways::Divided)?;
            let mut ways: Vec<_> = ways
                .into_iter()
                .map(|(_, variant)| (times[nth] * bounds[nth].least_along(&variant), variant.along))
                .collect();
            ways.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
            (!ways.is_empty()).then_some(ways)
        };
        let ways = (0..kernels.len()).map(of_stage).collect::<Option<Vec<_>>>()?;
        Some(Self { mesh, ways })
    }

    /// Lower bound on the seconds of every program on this mesh.
    pub(super) fn least(&self) -> f64 {
        self.ways.iter().map(|ways| ways[0].0).sum()
    }
}
