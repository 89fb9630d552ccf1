//! Facts about kernels in sequence that do not depend on a mesh.

use super::SequenceSearch;
use super::laid::Laid;
use super::shared::Shared;
use crate::grid::Bounds;
use crate::variant::{Along, Variant, Ways};
use polyshard_layout::Mesh;
use polyshard_program::{Kernel, Program};

/// The stages of a search, each with its bounds.
pub(super) struct Known<'a> {
    pub(super) kernels: Vec<&'a Kernel>,
    /// The programs of the stages whose schedules are given.
    pub(super) fixed: Vec<Option<Program>>,
    /// The bounds of each stage alone.
    pub(super) bounds: Vec<Bounds<'a>>,
    /// The bounds of each stage if it reuses all tiles that earlier stages or rounds may keep for it.
    pub(super) least: Vec<Bounds<'a>>,
    pub(super) shared: Shared,
    /// How often each stage runs.
    times: Vec<f64>,
}

impl<'a> Known<'a> {
    pub(super) fn new(search: &SequenceSearch<'a>, kernels: Vec<&'a Kernel>, fixed: Vec<Option<Program>>) -> Self {
        let (machine, ranks) = (search.machine, search.ranks);
        let bounds = kernels.iter().map(|kernel| Bounds::new(kernel, machine, ranks, [])).collect();
        // A value that an earlier stage reads may be in its tile, and need not be fetched again.
        let shared = Shared::new(&search.stages, &search.around, &kernels);
        let stays =
            shared.before.iter().zip(&shared.unchanged).map(|(before, unchanged)| [&before[..], unchanged].concat());
        let least =
            kernels.iter().zip(stays).map(|(kernel, stays)| Bounds::new(kernel, machine, ranks, stays)).collect();
        let times = (0..kernels.len()).map(|nth| search.around.times(nth)).collect();
        Self { kernels, fixed, bounds, least, shared, times }
    }

    /// The meshes over which all stages can be laid, lowest bounds first. `given` are the lower bounds, in seconds, of
    /// stages with given schedules.
    pub(super) fn laid(&self, meshes: Vec<Mesh>, given: &[Option<f64>]) -> Vec<Laid> {
        let mut meshes: Vec<Laid> = meshes.into_iter().filter_map(|mesh| self.on_mesh(mesh, given)).collect();
        // Among equal bounds, fewer axes are simpler.
        meshes.sort_by(|one, other| {
            let by_bound = one.least().total_cmp(&other.least());
            by_bound
                .then_with(|| one.mesh.ndim().cmp(&other.mesh.ndim()))
                .then_with(|| one.mesh.to_string().cmp(&other.mesh.to_string()))
        });
        meshes
    }

    /// Lays all stages over a mesh; `None` if one has no way.
    fn on_mesh(&self, mesh: Mesh, given: &[Option<f64>]) -> Option<Laid> {
        let of_stage = |nth: usize| {
            if let Some(least) = given[nth] {
                return Some(vec![(least, Along { axes: Vec::new() })]);
            }
            let ways = Variant::all(&mesh, self.kernels[nth], Ways::Divided)?;
            let bound = |variant: &Variant| self.times[nth] * self.least[nth].least_along(variant);
            let mut ways: Vec<_> = ways.into_iter().map(|(_, variant)| (bound(&variant), variant.along)).collect();
            ways.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
            (!ways.is_empty()).then_some(ways)
        };
        let ways = (0..self.kernels.len()).map(of_stage).collect::<Option<Vec<_>>>()?;
        Some(Laid { mesh, ways })
    }
}
