//! Facts about kernels in sequence that do not depend on a mesh, and the ways to lay their loops over meshes.

use super::SequenceSearch;
use crate::grid::Bounds;
use crate::stages::{Around, Stage};
use crate::variant::{Along, Variant, Ways};
use polyshard_dsl::Clause;
use polyshard_layout::{Mesh, Name};
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
    /// The given shardings of the tensors of each stage.
    pub(super) homes: Vec<Vec<(Name, Vec<Clause>)>>,
    /// Whether the mesh, or something that limits it, is given.
    is_given: bool,
    /// How often each stage runs.
    times: Vec<f64>,
}

impl<'a> Known<'a> {
    pub(super) fn new(search: &SequenceSearch<'a>, kernels: Vec<&'a Kernel>, fixed: Vec<Option<Program>>) -> Self {
        let (machine, ranks) = (search.machine, search.ranks);
        let homes: Vec<_> = kernels.iter().enumerate().map(|(nth, kernel)| search.homes_of(nth, kernel)).collect();
        let given = |nth: usize| homes[nth].iter().map(|(tensor, _): &(Name, _)| *tensor).collect::<Vec<_>>();
        let bounds = |nth, also| Bounds::new(kernels[nth], machine, ranks, [given(nth), also].concat());
        // A value that an earlier stage reads may be in its tile, and need not be fetched again.
        let shared = Shared::new(&search.stages, &search.around, &kernels);
        let stays = |nth: usize| [&shared.before[nth][..], &shared.unchanged[nth]].concat();
        let least = (0..kernels.len()).map(|nth| bounds(nth, stays(nth))).collect();
        let bounds = (0..kernels.len()).map(|nth| bounds(nth, Vec::new())).collect();
        let times = (0..kernels.len()).map(|nth| search.around.times(nth)).collect();
        let is_given = search.mesh.is_some() || !search.homes.is_empty() || fixed.iter().any(Option::is_some);
        Self { kernels, fixed, bounds, least, shared, homes, is_given, times }
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
            let kernel = self.kernels[nth];
            let mut ways = Variant::all(&mesh, kernel, Ways::Divided)?;
            // Without indices, a kernel is computed by all ranks; on a given mesh, one with short loops is by some.
            if ways.is_empty() && (self.is_given || kernel.vars().is_empty()) {
                ways = Variant::all(&mesh, kernel, Ways::All)?;
            }
            let bound = |variant: &Variant| self.times[nth] * self.least[nth].least_along(variant);
            let mut ways: Vec<_> = ways.into_iter().map(|(_, variant)| (bound(&variant), variant.along)).collect();
            ways.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
            (!ways.is_empty()).then_some(ways)
        };
        let ways = (0..self.kernels.len()).map(of_stage).collect::<Option<Vec<_>>>()?;
        Some(Laid { mesh, ways })
    }
}

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

/// For each stage, the inputs whose tiles it may reuse in later rounds, or share with other stages.
pub(super) struct Shared {
    /// Inputs that do not change in the innermost rounds around it.
    pub(super) unchanged: Vec<Vec<Name>>,
    /// Inputs that earlier stages read.
    pub(super) before: Vec<Vec<Name>>,
    /// Inputs that any other stage reads, or that do not change.
    pub(super) with_any: Vec<Vec<Name>>,
}

impl Shared {
    pub(super) fn new(stages: &[Stage], around: &Around, kernels: &[&Kernel]) -> Self {
        let inputs = |nth: usize, others: &dyn Fn(usize) -> bool| {
            let others: Vec<&Stage> =
                (0..stages.len()).filter(|&other| others(other)).map(|nth| &stages[nth]).collect();
            let inputs = kernels[nth].inputs().iter().zip(&stages[nth].inputs);
            let is_read = |value: &Name| others.iter().any(|other| other.inputs.contains(value));
            inputs.filter(|(_, value)| is_read(value)).map(|(tensor, _)| tensor.name).collect()
        };
        let all = 0..stages.len();
        let unchanged: Vec<Vec<Name>> = all.clone().map(|nth| around.unchanged(stages, nth, kernels[nth])).collect();
        let both = |nth: usize| [inputs(nth, &|other| other != nth), unchanged[nth].clone()].concat();
        Self {
            before: all.clone().map(|nth| inputs(nth, &|other| other < nth)).collect(),
            with_any: all.map(both).collect(),
            unchanged,
        }
    }
}
