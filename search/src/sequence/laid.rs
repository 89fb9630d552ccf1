//! Meshes, and how the loops of several kernels lie over them.

use crate::grid::Bounds;
use crate::variant::{Along, Variant, Ways};
use polyshard_layout::Mesh;
use polyshard_program::Kernel;

/// A mesh, and the ways to lay each kernel over it, by their bounds.
pub(super) struct Laid {
    pub(super) mesh: Mesh,
    /// By stage: seconds at least, and the loop for each axis. Of a stage whose schedule is given there is one.
    pub(super) ways: Vec<Vec<(f64, Along)>>,
}

impl Laid {
    /// None if a kernel has no way. Given are the bounds of kernels, each of which runs `times` times. Of stages whose schedules are given, the seconds are known that they take at least.
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

    /// Seconds that every program on this mesh takes at least.
    pub(super) fn least(&self) -> f64 {
        self.ways.iter().map(|ways| ways[0].0).sum()
    }
}
