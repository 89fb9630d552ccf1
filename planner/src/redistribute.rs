//! Redistribution: from one distributed type to another, with minimal transfer, inside a memory bound.
//!
//! After N. Rink, A. Paszke, D. Vytiniotis and G. Schmid, "Memory-efficient array redistribution through portable
//! collective communication", arXiv 2112.01075, and beyond it: the path avoids a permutation where possible,
//! all-to-alls may move digits between several pairs of dimensions at once, and a direct exchange or a gather of
//! everything is used where links make it cheaper.
//!
//! | file | holds |
//! | --- | --- |
//! | `problem` | a redistribution as a puzzle over piece counts |
//! | `state` | states of the search, and the operations between them |
//! | `moves` | the possible operations after a state, and when they make a permutation unnecessary |
//! | `estimate` | the goals of a search, and a lower bound of the cost to reach them |
//! | `search` | the cheapest path |
//! | `digits` | the types along a path |
//! | `find`, `plan` | plans, with and without a search |
//! | `group`, `step` | the ranks that take part in an operation |
//! | `volume`, `cost` | the cost of a plan |
//! | `lower`, `explain`, `report` | plans as programs, text and data |

mod cost;
mod digits;
mod estimate;
mod explain;
mod find;
mod group;
mod lower;
mod moves;
mod plan;
mod problem;
mod report;
mod search;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod volume;

pub use cost::CostModel;
pub use lower::{redistribution, redistribution_with};
pub use plan::Plan;
pub use problem::Cost;
pub use report::{Report, StepReport};
pub use step::PlanStep;

use crate::{DistType, PlanError};
use polyshard_layout::{DType, Mesh, Sharding};
use std::fmt::Display;

/// Which operations a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Ops {
    /// Those of the literature: an all-to-all from one dimension to another, an all-gather of one dimension.
    Paper,
    /// Also all-to-alls between several dimensions and all-gathers of several at once.
    #[default]
    Fused,
    /// One exchange between all pairs of ranks: minimal transfer, maximal number of messages.
    Exchange,
    /// The cheapest of all these.
    Any,
}

/// The memory that a device has for the tiles of an array while it is redistributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MemoryBound {
    /// No intermediate tile is larger than both the source's and the target's.
    #[default]
    Strict,
    /// No intermediate tile takes more bytes than this.
    Bytes(usize),
}

/// The operations that a plan may use and its cost model.
///
/// ```
/// use polyshard::planner::{MemoryBound, Plan, PlanError, PlanOptions};
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 4)]);
/// let [rows, columns] = [0, 1].map(|dim| Sharding::new(&mesh, &[8, 8], &[Placement::block(dim, "x")]));
/// let options = PlanOptions { dtype: DType::F32, memory: MemoryBound::Bytes(32), ..PlanOptions::default() };
/// let plan = Plan::between(&rows?, &columns?, &options);
/// assert!(matches!(plan, Err(PlanError::Memory { source_bytes: 64, .. })));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    /// The operations that a plan may use.
    pub ops: Ops,
    /// The memory that a tile may take.
    pub memory: MemoryBound,
    /// The cost to minimise.
    pub model: CostModel,
    /// The element type, whose size memory and time depend on.
    pub dtype: DType,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { ops: Ops::default(), memory: MemoryBound::default(), model: CostModel::Elements, dtype: DType::F64 }
    }
}

impl Plan {
    /// Returns the cheapest plan between two shardings of one array, in blocks numbered by whole axes. Blocks need not
    /// divide the array: then the plan is for a larger one, whose tiles are cut off at the array's end.
    ///
    /// ```
    /// use polyshard::planner::{Plan, PlanOptions};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 4), ("y", 6)]);
    /// let [x, y] = mesh.axes();
    /// let [rows, others] = [x, y].map(|axis| Sharding::new(&mesh, &[10], &[Placement::block(0, axis)]));
    /// let plan = Plan::between(&rows?, &others?, &PlanOptions::default())?;
    /// assert_eq!([plan.source().to_string(), plan.target().to_string()], ["[3{x}12]", "[2{y}12]"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PlanError::Type`] if a sharding is not in such blocks, or tiles of both are not those of one larger array;
    /// otherwise as [`new`](Self::new).
    pub fn between(source: &Sharding, target: &Sharding, options: &PlanOptions) -> Result<Self, PlanError> {
        check_meshes(source.mesh(), target.mesh())?;
        check_shapes([source, target], [source.shape(), target.shape()])?;
        let [from, to] = DistType::covering(source, target)?;
        Self::cheapest(&from, &to, Some([source, target]), options)
    }

    /// Returns the cheapest plan from `source` to `target`.
    ///
    /// ```
    /// use polyshard::planner::{DistType, Ops, Plan, PlanOptions};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("devs", 32)]);
    /// let columns = DistType::parse("[32, 64{devs}2048]", &mesh)?;
    /// let rows = DistType::parse("[1{devs}32, 2048]", &mesh)?;
    /// let plan = Plan::new(&columns, &rows, &PlanOptions { ops: Ops::Paper, ..PlanOptions::default() })?;
    /// assert_eq!((plan.steps().len(), plan.total_cost(), plan.permutes()), (1, 2048, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or meshes differ, the tiles themselves do not fit into the memory bound, or the cost model is for
    /// another mesh.
    pub fn new(source: &DistType, target: &DistType, options: &PlanOptions) -> Result<Self, PlanError> {
        Self::cheapest(source, target, None, options)
    }

    /// The cheapest plan between types; `shardings` are those of the arrays where they differ from the types.
    fn cheapest(
        source: &DistType,
        target: &DistType,
        shardings: Option<[&Sharding; 2]>,
        options: &PlanOptions,
    ) -> Result<Self, PlanError> {
        check_meshes(source.mesh(), target.mesh())?;
        check_shapes([source, target], [&source.shape(), &target.shape()])?;
        options.model.check(source.mesh())?;
        let tiles = source.tile_len().max(target.tile_len());
        let most = match options.memory {
            MemoryBound::Strict => tiles,
            MemoryBound::Bytes(bytes) => bytes / options.dtype.size(),
        };
        if tiles > most
            && let MemoryBound::Bytes(bytes) = options.memory
        {
            let bytes_of = |dist_type: &DistType| dist_type.tile_len().saturating_mul(options.dtype.size());
            let (source_bytes, target_bytes) = (bytes_of(source), bytes_of(target));
            return Err(PlanError::Memory { bytes, source_bytes, target_bytes });
        }
        let paper = || Self::collectives(source, target, false);
        let fused = || {
            let plan = Self::collectives(source, target, true);
            // The search with more operations may give up earlier.
            let plain = (plan.total_cost() > plan.weak_cost).then(|| Self { weak_cost: plan.weak_cost, ..paper() });
            plain.filter(|plain| plain.total_cost() < plan.total_cost()).unwrap_or(plan)
        };
        let (first, mut others) = match options.ops {
            Ops::Paper => (paper(), Vec::new()),
            Ops::Fused => (fused(), Vec::new()),
            Ops::Exchange => (Self::exchange(source, target), Vec::new()),
            Ops::Any => (paper(), vec![fused(), Self::exchange(source, target)]),
        };
        // More elements may take less time: along other axes, in fewer steps, with larger tiles.
        if matches!(options.model, CostModel::Seconds(_)) && options.ops != Ops::Exchange {
            others.extend(Self::alternatives(source, target, options.ops != Ops::Paper, first.weak_cost));
            others.retain(|plan| plan.peak() <= most);
        }
        let between =
            |plan: Self| Self { shardings: shardings.map(|[from, to]| Box::new([from.clone(), to.clone()])), ..plan };
        let plans = std::iter::once(first).chain(others).map(between);
        let cheapest = options.model.cheapest(plans, options.dtype);
        Ok(cheapest.expect("the first plan is one of them; this is a bug in polyshard"))
    }
}

fn check_meshes(source: &Mesh, target: &Mesh) -> Result<(), PlanError> {
    let [source_mesh, target_mesh] = [source, target].map(Mesh::to_string);
    if source == target { Ok(()) } else { Err(PlanError::Meshes { source_mesh, target_mesh }) }
}

fn check_shapes<T: Display>([source, target]: [&T; 2], shapes: [&[usize]; 2]) -> Result<(), PlanError> {
    if shapes[0] == shapes[1] {
        return Ok(());
    }
    let [source_shape, target_shape] = shapes.map(<[usize]>::to_vec);
    Err(PlanError::Shapes {
        source_type: source.to_string(),
        source_shape,
        target_type: target.to_string(),
        target_shape,
    })
}
