//! Redistribution: from one distributed type to another, with the least transfer, inside a memory bound.
//!
//! After N. Rink, A. Paszke, D. Vytiniotis and G. Schmid, "Memory-efficient array redistribution through
//! portable collective communication", arXiv 2112.01075, and beyond it: a path is chosen so that it needs no
//! permutation where that is possible, all-to-alls may move digits between several pairs of dimensions at
//! once, and a direct exchange or a gather of everything is taken where links make it cheaper.
//!
//! | file | holds |
//! | --- | --- |
//! | `problem` | a redistribution as a puzzle over piece counts |
//! | `moves` | the operations on it, and when they leave no permutation over |
//! | `search` | the cheapest path |
//! | `digits` | the types along a path |
//! | `group`, `step` | who takes part in an operation |
//! | `volume`, `cost` | what it costs |

mod cost;
mod digits;
mod explain;
mod group;
mod moves;
mod plan;
mod problem;
mod report;
mod search;
mod step;
#[cfg(test)]
mod tests;
mod volume;

pub use cost::{CostModel, Links};
pub use plan::Plan;
pub use problem::Cost;
pub use report::{Report, StepReport};
pub use step::{Op, Step};

use crate::part::{divisors, extent, joined, split};
use crate::{DistDim, DistType, PlanError};
use digits::Point;
use moves::Move;
use problem::Problem;
use search::{Path, Rules, Search};

/// Which operations a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Ops {
    /// Those of the literature: an all-to-all from one dimension to one other, an all-gather of one dimension.
    Paper,
    /// Also all-to-alls between several dimensions and all-gathers of several at once.
    #[default]
    Fused,
    /// One exchange between all pairs of ranks: the least transfer, and the most messages.
    Exchange,
    /// Whatever of all these is cheapest.
    Any,
}

/// How much memory a device has for the array and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MemoryBound {
    /// No tile on the way is larger than both the source's and the target's.
    #[default]
    Strict,
    /// No tile on the way takes more bytes.
    Bytes(usize),
}

/// What a plan may do and what it is judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The operations that it may use.
    pub ops: Ops,
    /// The memory that a tile may take.
    pub memory: MemoryBound,
    /// What counts as cost.
    pub model: CostModel,
    /// The bytes of an element.
    pub element_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { ops: Ops::default(), memory: MemoryBound::default(), model: CostModel::Elements, element_bytes: 8 }
    }
}

impl Plan {
    /// Returns the cheapest plan from `source` to `target`.
    ///
    /// ```
    /// use polyshard_layout::Mesh;
    /// use polyshard_planner::{DistType, Options, Ops, Plan};
    /// let mesh = Mesh::new([("devs", 32)]);
    /// let columns = DistType::parse("[32, 64{devs}2048]", &mesh)?;
    /// let rows = DistType::parse("[1{devs}32, 2048]", &mesh)?;
    /// let plan = Plan::new(&columns, &rows, &Options { ops: Ops::Paper, ..Options::default() })?;
    /// assert_eq!((plan.steps().len(), plan.total_cost(), plan.permutes()), (1, 2048, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or meshes differ, the tiles themselves do not fit into the memory bound, or the cost model is
    /// none.
    pub fn new(source: &DistType, target: &DistType, options: &Options) -> Result<Self, PlanError> {
        if source.mesh() != target.mesh() {
            let (source_mesh, target_mesh) = (source.mesh().to_string(), target.mesh().to_string());
            return Err(PlanError::Meshes { source_mesh, target_mesh });
        }
        if source.shape() != target.shape() {
            return Err(PlanError::Shapes {
                source_type: source.to_string(),
                source_shape: source.shape(),
                target_type: target.to_string(),
                target_shape: target.shape(),
            });
        }
        if let CostModel::Links(links) = &options.model {
            links.check(source.mesh())?;
        }
        let tiles = source.tile_len().max(target.tile_len());
        let most = match options.memory {
            MemoryBound::Strict => tiles,
            MemoryBound::Bytes(bytes) => bytes / options.element_bytes.max(1),
        };
        if tiles > most
            && let MemoryBound::Bytes(bytes) = options.memory
        {
            let bytes_of = |dist_type: &DistType| dist_type.tile_len().saturating_mul(options.element_bytes);
            let (source_bytes, target_bytes) = (bytes_of(source), bytes_of(target));
            return Err(PlanError::Memory { bytes, source_bytes, target_bytes });
        }
        let collectives = |fused| Self::collectives(source, target, fused);
        let fused = || {
            let plan = collectives(true);
            // The search among more operations may give up earlier.
            let plain =
                (plan.total_cost() > plan.weak_cost).then(|| Self { weak_cost: plan.weak_cost, ..collectives(false) });
            plain.filter(|plain| plain.total_cost() < plan.total_cost()).unwrap_or(plan)
        };
        let (first, mut others) = match options.ops {
            Ops::Paper => (collectives(false), Vec::new()),
            Ops::Fused => (fused(), Vec::new()),
            Ops::Exchange => (Self::exchange(source, target), Vec::new()),
            Ops::Any => (collectives(false), vec![fused(), Self::exchange(source, target)]),
        };
        // Transfers that are mostly latency may be cheaper with larger tiles on the way.
        if matches!(options.model, CostModel::Links(_)) && options.ops != Ops::Exchange {
            let gathered = Self::gather_and_slice(source, target, first.weak_cost);
            others.extend(gathered.filter(|plan| plan.peak() <= most));
        }
        let cheaper = |best: Self, plan: Self| {
            if options.model.compare(&plan, &best, options.element_bytes).is_lt() { plan } else { best }
        };
        Ok(others.into_iter().fold(first, cheaper))
    }

    /// Slices, all-to-alls, all-gathers, and a permutation where it cannot be avoided.
    fn collectives(source: &DistType, target: &DistType, fused: bool) -> Self {
        if source == target {
            return Self { source: source.clone(), target: target.clone(), steps: Vec::new(), weak_cost: 0 };
        }
        if source.is_empty() {
            return Self::exchange(source, target);
        }
        let problem = Problem::new(source, target);
        let search = |rules, slices, bound| Search { problem: &problem, rules, fused, slices, bound };
        // What is found without smaller tiles on the way keeps the search with them short.
        let spare = problem.spare(source.dims().iter().map(|dim| extent(&dim.parts)));
        let plain = if spare > 1 { search(Rules::Weak, false, None).run(|path| Some(path.cost + 1)) } else { None };
        let weak = search(Rules::Weak, true, plain).run(Some);
        let weak = weak.expect("types can be gathered and sliced: this is a bug of polyshard");
        let realized = |path: Path| Self::realized(&problem, &path.moves, fused, weak.cost);
        // A permutation need not move a larger tile than the smaller of the two.
        let most = weak.cost + source.tile_len().min(target.tile_len()) as Cost;
        let free = search(Rules::Free, true, Some(most + 1)).run(realized);
        // Of two plans that cost the same, the one with fewer all-to-alls.
        let bound = match &free {
            Some(free) if free.total_cost() == weak.cost => return free.clone(),
            Some(free) => free.total_cost() + 1,
            None => most + 1,
        };
        let permuted = search(Rules::Permuted, true, Some(bound)).run(realized);
        // Where several primes meet in one dimension, digits may come apart nowhere on the way.
        permuted.or(free).unwrap_or_else(|| Self { weak_cost: weak.cost, ..Self::exchange(source, target) })
    }

    fn realized(problem: &Problem<'_>, moves: &[Move], fused: bool, weak_cost: Cost) -> Option<Self> {
        let (moves, points) = digits::points(problem, moves, fused)?;
        let mut steps: Vec<Step> = Vec::new();
        let type_at = |point: &Point| {
            let dims = point.iter().zip(&problem.dims).map(|(parts, dim)| DistDim {
                tile: dim.size / extent(parts),
                parts: parts.clone(),
                size: dim.size,
            });
            DistType::new(problem.source.mesh(), dims.collect()).ok()
        };
        let mut from = problem.source.clone();
        let mut last_sliced = None;
        for (step, point) in moves.iter().zip(&points[1..]) {
            let to = type_at(point)?;
            let sliced = if let Move::Slice(dim, _) = step { Some(*dim) } else { None };
            let op = match step {
                Move::Slice(..) => Op::DynSlice,
                Move::AllToAll { .. } => Op::AllToAll,
                Move::Permute => Op::AllPermute,
                Move::AllGather(_) => Op::AllGather,
            };
            // Slices of one dimension are one step, or all slices are.
            if op == Op::DynSlice && last_sliced.is_some_and(|last| fused || Some(last) == sliced) {
                from = steps.pop().map_or(from, |step| step.from().clone());
            }
            last_sliced = sliced;
            if op != Op::AllPermute || from != to {
                steps.push(Step::new(op, from, to.clone())?);
            }
            from = to;
        }
        (from == *problem.target).then(|| Self {
            source: problem.source.clone(),
            target: problem.target.clone(),
            steps,
            weak_cost,
        })
    }

    fn exchange(source: &DistType, target: &DistType) -> Self {
        let step = Step::new(Op::Exchange, source.clone(), target.clone());
        let step = step.expect("an exchange has groups: this is a bug of polyshard");
        let (weak_cost, steps) = (step.elements(), if source == target { Vec::new() } else { vec![step] });
        Self { source: source.clone(), target: target.clone(), steps, weak_cost }
    }

    /// Gathers all that source and target do not cut alike, at once, and slices it.
    fn gather_and_slice(source: &DistType, target: &DistType, weak_cost: Cost) -> Option<Self> {
        let dims = source.dims().iter().zip(target.dims()).map(|(before, after)| {
            let parts = common(&before.parts, &after.parts);
            DistDim { tile: before.size / extent(&parts), parts, size: before.size }
        });
        let gathered = DistType::new(source.mesh(), dims.collect()).ok()?;
        let mut steps = Vec::new();
        if gathered != *source {
            steps.push(Step::new(Op::AllGather, source.clone(), gathered.clone())?);
        }
        if gathered != *target {
            steps.push(Step::new(Op::DynSlice, gathered, target.clone())?);
        }
        Some(Self { source: source.clone(), target: target.clone(), steps, weak_cost })
    }
}

/// The digits, minor first, of the finest cut that two numberings have in common.
fn common(left: &[crate::AxisPart], right: &[crate::AxisPart]) -> Vec<crate::AxisPart> {
    let (mine, theirs) = (extent(left), extent(right));
    let cut = |pieces: usize| {
        let (_, high) = split(left, mine / pieces)?;
        let (_, same) = if theirs.is_multiple_of(pieces) { split(right, theirs / pieces)? } else { return None };
        (joined(high.clone()) == joined(same)).then_some(high)
    };
    divisors(mine).into_iter().rev().find_map(cut).unwrap_or_default()
}
