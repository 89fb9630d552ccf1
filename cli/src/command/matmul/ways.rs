//! The ways to compute a product: the division of its loops over the mesh, the steps that follow from it, and their costs. The
//! search divides the loops; each array is then redistributed for the product, or fetched while it runs, whichever is faster.
//! Tests: `cli/tests/it/placement/literature.rs`.

use crate::error::{CliError, Result};
use crate::notation::product::Product;
use crate::notation::subscripted;
use polyshard::layout::{DType, Mesh, Name, Sharding, joined};
use polyshard::machine::units::{bytes, scaled, seconds};
use polyshard::planner::cost::{CostError, CostedPart, PartCost, Prices};
use polyshard::planner::placement::PlacedMesh;
use polyshard::planner::{Sequence, redistribution};
use polyshard::program::{Direction, Pattern, Priced, Program, TensorId};
use polyshard::schedule::{Schedule, Step};
use polyshard::search::{Candidate, Choose};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Limit on the ways that are compared.
const WAYS: usize = 8_000;

/// A way to divide the loops, as in `I_X J K_Y`, with the shardings of the factors, and the time and memory of a device.
#[derive(Serialize)]
pub(super) struct Way {
    pub(super) work: String,
    pub(super) left: String,
    pub(super) right: String,
    pub(super) bytes: u64,
    pub(super) communication_seconds: f64,
    pub(super) arithmetic_seconds: f64,
    pub(super) overlapped_seconds: f64,
    pub(super) sequential_seconds: f64,
    pub(super) memory_bytes: u64,
    pub(super) fits: bool,
    pub(super) steps: Vec<WayStep>,
    #[serde(skip)]
    schedule: Schedule,
    /// The shardings of the factors before all steps, and of the result after them.
    #[serde(skip)]
    arrays: [Sharding; 3],
}

/// A step: its text with and without arrays, and the groups of ranks that communicate in it.
#[derive(Serialize)]
pub(super) struct WayStep {
    pub(super) operation: String,
    pub(super) step: String,
    #[serde(skip)]
    pub(super) brief: String,
    #[serde(skip)]
    pub(super) cost: String,
    pub(super) groups: Vec<Vec<usize>>,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

impl Way {
    /// The program over elements of this type, proved as every program is.
    pub(super) fn program(&self, product: &Product, dtype: DType) -> Result<Program> {
        let kernel = self.schedule.steps().cloned().fold(product.kernel(dtype), Schedule::apply).lower()?;
        let ([left, right, out], [a, b, c]) = (product.tensors, &self.arrays);
        let sequence = Sequence::new().stage(&kernel, [left, right], out).input(left, a).input(right, b);
        Ok(sequence.output(out, c).build()?)
    }

    /// The steps in one line.
    pub(super) fn brief(&self) -> String {
        joined(self.steps.iter().map(|step| &step.brief), "; ")
    }
}

/// The cheapest way of each division of the loops, the best first: those that fit by time, then the others by memory.
pub(super) fn ways(product: &Product, dtype: DType, on: &PlacedMesh, free: [bool; 3]) -> Result<Vec<Way>> {
    let axes = on.mesh().extents().into_iter().filter(|&extent| extent > 1).count();
    let dims = product.loops.len();
    let count = (0..axes).try_fold(1usize, |count, axis| count.checked_mul(dims + 1 + axis));
    if count.is_none_or(|count| count > WAYS) {
        let what = format!("{dims} dimensions over {axes} axes of more than one rank have more than {WAYS} layouts");
        return Err(CliError::refused(what, "join axes with equal links, or dimensions with equal shardings"));
    }
    // The other types are priced as integers: their sums may be combined in any order.
    let computed = if dtype.native().is_ok() { dtype } else { DType::I32 };
    let device = on.machine().device();
    if !device.flops.contains_key(dtype.name()) {
        let stated = joined(device.flops.keys(), ", ");
        return Err(CostError::Rate { machine: on.machine().name().to_owned(), dtype, stated }.into());
    }
    let machine = on.machine().scaled(computed, dtype);
    let (placed, kernel) = (PlacedMesh::new(on.mesh(), &machine, on.matrix())?, product.kernel(computed));
    let mut search = kernel.auto(on.mesh().size(), &machine).on_placed(&placed);
    search = search.without_panels().memory(u64::MAX).at_least(usize::MAX);
    for (nth, array) in product.arrays.iter().enumerate() {
        // Replicated arrays are never fetched: each way states below which part of them a rank needs.
        search = search.shard(product.tensors[nth], if free[nth] { Vec::new() } else { product.clauses(array) });
    }
    let (choice, prices) = (search.find()?, Prices::on(&placed));
    let small = |way: &Way| if way.fits { 0 } else { way.memory_bytes };
    let order = |one: &Way, other: &Way| {
        let sums = one.sequential_seconds.total_cmp(&other.sequential_seconds);
        let longest = one.overlapped_seconds.total_cmp(&other.overlapped_seconds);
        let memory = one.memory_bytes.cmp(&other.memory_bytes);
        small(one)
            .cmp(&small(other))
            .then(sums)
            .then(longest)
            .then(memory)
            .then(one.steps.len().cmp(&other.steps.len()))
    };
    let mut best: BTreeMap<Vec<Option<usize>>, Way> = BTreeMap::new();
    for candidate in [choice.best()].into_iter().chain(choice.others()) {
        let over = product.over(candidate.axes());
        // The order of axes in a loop makes another schedule, but divides the same loops.
        let split: Vec<_> =
            (0..on.mesh().ndim()).map(|axis| over.iter().position(|axes| axes.contains(&axis))).collect();
        let needed = product.needed(&over);
        for moves in 0..8 {
            let moved = [0, 1, 2].map(|nth| moves >> nth & 1 == 1);
            if (0..3).any(|nth| moved[nth] && (free[nth] || needed[nth] == product.arrays[nth])) {
                continue;
            }
            let Some(mut way) = way(product, candidate, &over, dtype, [free, moved], &prices)? else { continue };
            way.fits = way.memory_bytes <= device.memory_capacity;
            if best.get(&split).is_none_or(|other| order(&way, other).is_lt()) {
                best.insert(split.clone(), way);
            }
        }
    }
    let mut ways: Vec<Way> = best.into_values().collect();
    ways.sort_by(|one, other| order(one, other).then_with(|| one.work.cmp(&other.work)));
    Ok(ways)
}

/// A way with its steps: those of the product, whose free factors have the shardings that it needs, and those of the arrays that
/// are redistributed before or after it. `None` if an array cannot be redistributed in this way, or the schedule is not legal.
fn way(
    product: &Product,
    candidate: &Candidate,
    over: &[Vec<usize>],
    dtype: DType,
    [free, moved]: [[bool; 3]; 2],
    prices: &Prices<'_>,
) -> Result<Option<Way>> {
    let (mesh, needed) = (product.mesh(), product.needed(over));
    let outside = [0, 1, 2].map(|nth| if free[nth] { &needed[nth] } else { &product.arrays[nth] });
    let ends = [0, 1, 2].map(|nth| if moved[nth] { &needed[nth] } else { outside[nth] });
    let lies = |step: &Step| match step {
        Step::Shard { tensor, .. } => {
            let nth = product.tensors.iter().position(|other| other == tensor).unwrap_or(2);
            Step::Shard { tensor: *tensor, clauses: product.clauses(ends[nth]) }
        }
        step => step.clone(),
    };
    let kernel = candidate.schedule().kernel()?.clone();
    let computed = kernel.dtype();
    let schedule = candidate.schedule().steps().map(lies).fold(Schedule::new(kernel), Schedule::apply);
    let Ok(program) = schedule.unproved() else { return Ok(None) };
    let (cost, nest) = (prices.of(&program)?, program.priced().nest());
    let share = |bytes: u64| bytes / (computed.size() / dtype.size()) as u64;
    let moves = |pattern: &Pattern, at: [String; 2], brief: &str, part: Option<&PartCost>| {
        let (received, taken) = part.map_or((0, 0.0), |part| (share(part.received), part.seconds));
        WayStep {
            operation: pattern.to_string(),
            step: format!("{pattern} {}", at.join(" -> ")),
            brief: format!("{pattern} {brief}"),
            cost: format!("{} in {}", bytes(received.into()), seconds(taken)),
            groups: groups(mesh, pattern),
            bytes: received,
            seconds: taken,
        }
    };
    let step = |part: &PartCost| {
        let CostedPart::Transfer(id) = part.part else {
            let [left, right, out] = &needed;
            return WayStep {
                operation: "multiply".to_owned(),
                step: format!("{left} * {right} -> {out}"),
                brief: format!("{} * {}", left.tensor, right.tensor),
                cost: format!("{} in {}", scaled(nest.work().operations as f64, "FLOP"), seconds(part.seconds)),
                groups: Vec::new(),
                bytes: 0,
                seconds: part.seconds,
            };
        };
        let transfer = &nest.transfers[id.0];
        let TensorId(nth) = transfer.tensor;
        let mut at = [ends[nth].to_string(), needed[nth].to_string()];
        if transfer.direction != Direction::In {
            at.reverse();
        }
        moves(&nest.pattern_of(transfer), at, &needed[nth].tensor, Some(part))
    };
    let mut memory = cost.memory;
    let mut steps: [Vec<WayStep>; 3] = [Vec::new(), cost.parts.iter().map(step).collect(), Vec::new()];
    for nth in (0..3).filter(|&nth| moved[nth]) {
        let between = if nth < 2 { [outside[nth], ends[nth]] } else { [ends[nth], outside[nth]] };
        let [from, to] = between.map(|array| &array.sharding);
        let Ok(program) = redistribution(from, to, computed) else { return Ok(None) };
        let cost = prices.of(&program)?;
        // Memory that the product holds is counted with the product.
        let tile = ends[nth].sharding.local_len(&vec![0; mesh.ndim()]) * computed.size();
        memory = memory.saturating_add(cost.memory.saturating_sub(tile as u64));
        for step in program.moves() {
            let shown = |sharding: &Sharding| match between.iter().find(|array| array.sharding == *sharding) {
                Some(array) => array.to_string(),
                // Over the digits of an axis, say.
                None => format!("{} {sharding}", ends[nth].tensor),
            };
            let at = [step.source, step.target].map(|id| shown(&program.array(id).sharding));
            let part = cost.parts.iter().find(|part| part.part == CostedPart::Move(step.id));
            steps[if nth < 2 { 0 } else { 2 }].push(moves(&step.pattern(), at, &ends[nth].tensor, part));
        }
    }
    let steps = Vec::from_iter(steps.into_iter().flatten());
    let [communication, arithmetic] = [false, true].map(|multiplies| {
        steps.iter().filter(|step| (step.operation == "multiply") == multiplies).map(|step| step.seconds).sum::<f64>()
    });
    Ok(Some(Way {
        work: subscripted(mesh, &product.loops, over).join(" "),
        left: outside[0].to_string(),
        right: outside[1].to_string(),
        bytes: steps.iter().map(|step| step.bytes).fold(0, u64::saturating_add),
        communication_seconds: communication,
        arithmetic_seconds: arithmetic,
        overlapped_seconds: communication.max(arithmetic),
        sequential_seconds: communication + arithmetic,
        memory_bytes: share(memory),
        fits: true,
        steps,
        schedule,
        arrays: outside.map(|array| array.sharding.clone()),
    }))
}

/// The groups of ranks that communicate, each ascending.
fn groups(mesh: &Mesh, pattern: &Pattern) -> Vec<Vec<usize>> {
    let names = match pattern {
        Pattern::Local => return Vec::new(),
        Pattern::Permute | Pattern::Halo { .. } | Pattern::Exchange | Pattern::Sequence { .. } => {
            mesh.as_slice().iter().map(|axis| axis.name).collect()
        }
        pattern => pattern.axes(),
    };
    // Groups along digits of an axis, such as `y%3`, are parts of those along the axis.
    let axis = |name: Name| mesh.position(name.as_str().split(['/', '%']).next()?.into());
    let axes: BTreeSet<usize> = names.into_iter().filter_map(axis).collect();
    mesh.groups_along(&Vec::from_iter(axes)).into_iter().filter(|group| group.len() > 1).collect()
}
