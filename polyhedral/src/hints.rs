//! Finds parts of a program that are likely slow, as [`Hint`]s. Tests: `polyhedral/tests/it/hints.rs`.

use crate::context::Context;
use crate::leaf::{matrix_product, max_counts};
use crate::nest::{Definition, Depth, Node, NodeId};
use crate::planned::Planned;
use crate::range::{alignment, position};
use polyshard_dsl::Step;
use polyshard_layout::{Division, LevelLayout, Name, Placement, each_once, gcd};
use polyshard_program::{
    Access, Affine, Assign, Direction, Hint, IndexVar, Kernel, Leaf, LeafOp, NestView, Symbol, Tensor, Transfer, Value,
};

/// The hints on a program, in the order of its parts.
pub(crate) fn find(context: &Context<'_>, transfers: &[Planned], leaf: &Leaf, depth: Depth) -> Vec<Hint> {
    let kernel = context.kernel();
    if kernel.vars().iter().any(|var| var.extent == 0) {
        return Vec::new();
    }
    let mut hints = empty_iterations(context);
    hints.extend(repeated_terms(kernel));
    hints.extend(lone_indices(kernel));
    hints.extend(replicated_output(context));
    let (outputs, inputs): (Vec<_>, Vec<_>) =
        transfers.iter().partition(|transfer| transfer.direction != Direction::In);
    hints.extend(outputs.iter().find_map(|output| moved_output(context, output)));
    let moved = |transfer: &&&Planned| !transfer.route.is_local();
    for transfer in inputs.iter().chain(&outputs).filter(moved).filter(|transfer| transfer.ahead > 0) {
        let tensor = kernel.tensors().nth(transfer.tensor.0).expect("a transfer is of a tensor of its kernel").name;
        hints.extend(idle_pipeline(context, tensor, transfer, leaf, depth));
    }
    for transfer in inputs.iter().filter(moved) {
        let tensor = &kernel.inputs()[transfer.tensor.0];
        hints.extend(crossed_blocks(context, transfer, tensor));
        hints.extend(one_element(context, tensor.name, transfer));
    }
    for transfer in inputs.iter().filter(|transfer| transfer.tile.capacity > 0) {
        let tensor = &kernel.inputs()[transfer.tensor.0];
        hints.extend(loose_tile(context, tensor, transfer));
    }
    hints.extend(outputs.iter().filter(moved).find_map(|output| one_element(context, kernel.output().name, output)));
    hints.extend(leaf_hint(context, leaf, depth));
    hints.extend(factors_of_product(context, leaf));
    hints
}

/// Divided loops, some of whose parts have no indices.
fn empty_iterations(context: &Context<'_>) -> Vec<Hint> {
    let nest = context.nest();
    let steps: Vec<&Step> = context.schedule.steps().collect();
    let split = nest.nodes.iter().enumerate().filter_map(|(id, node)| match &node.definition {
        Definition::Split { outer, factor, offset, .. } if node.extent > 0 => {
            Some((NodeId(id), node, *outer, *factor, *offset))
        }
        _ => None,
    });
    let hint = |(id, node, outer, factor, offset): (NodeId, &Node, NodeId, i64, i64)| {
        let end = |values: i64| values / factor + i64::from(values % factor != 0);
        let (filled, parts) = (offset / factor..end(offset + node.extent), nest.node(outer));
        if filled == (0..parts.extent) {
            return None;
        }
        let axis = bound_axis(context, outer);
        match (axis, context.state.written(id)) {
            // Not all of these ranks would be idle if the loop ran over the whole dimension by which it is divided.
            (Some(axis), Some((start, extent))) if start == offset && filled != (0..end(extent)) => {
                let kernel = context.kernel();
                let range = kernel.vars()[id.0].range();
                let (tensor, ranks) = (kernel.output().name, parts.extent);
                Some(Hint::ShortRange { name: node.name, range, tensor, extent, axis, filled, ranks })
            }
            _ => {
                let step = parts.steps.first().map(|step| steps[step.0 - 1].to_string()).unwrap_or_default();
                let (filled, extent) = (filled.end, parts.extent);
                Some(Hint::EmptyIterations { name: parts.name, filled, extent, axis, step })
            }
        }
    };
    split.filter_map(hint).collect()
}

/// The mesh axis that a loop is bound to.
fn bound_axis(context: &Context<'_>, id: NodeId) -> Option<Name> {
    let nest = context.nest();
    let axis = nest.loops[..nest.distributed].iter().position(|&bound| bound == id)?;
    Some(context.state.mesh.as_slice()[axis].name)
}

/// Terms that lack an index that the statement sums over.
fn repeated_terms(kernel: &Kernel) -> Vec<Hint> {
    if !matches!(kernel.assign(), Assign::Set | Assign::Add) {
        return Vec::new();
    }
    let terms: Vec<_> = terms(kernel.written_value()).into_iter().filter(|term| !term.accesses().is_empty()).collect();
    let has = |term: &Value, name: Name| term.accesses().iter().any(|access| access.mentions(name));
    let summed = kernel.vars().iter().filter(|var| var.extent > 1 && !kernel.target().mentions(var.name));
    // The sum over an index that no term depends on is a factor of all terms.
    let summed: Vec<_> = summed.filter(|var| terms.iter().any(|term| has(term, var.name))).collect();
    let hint = |term: &&Value| {
        let lacks: Vec<_> = summed.iter().filter(|var| !has(term, var.name)).collect();
        let times = lacks.iter().fold(1u64, |times, var| times.saturating_mul(var.extent as u64));
        let indices: Vec<_> = lacks.iter().map(|var| var.name).collect();
        let (term, tensor) = (term.to_string(), kernel.output().name);
        (!indices.is_empty()).then_some(Hint::RepeatedTerm { term, indices, times, tensor })
    };
    terms.iter().filter_map(hint).collect()
}

/// The terms whose sum is the value, up to signs.
fn terms(value: &Value) -> Vec<&Value> {
    match value {
        Value::Add(a, b) | Value::Sub(a, b) => [terms(a), terms(b)].concat(),
        Value::Neg(inner) => terms(inner),
        value => vec![value],
    }
}

/// Indices that are summed over and occur in only one access, a factor of a product that lacks other indices.
fn lone_indices(kernel: &Kernel) -> Vec<Hint> {
    if !matches!(kernel.assign(), Assign::Set | Assign::Add) {
        return Vec::new();
    }
    let (value, target) = (kernel.written_value(), kernel.written_target());
    let hint = |var: &IndexVar| {
        let is_number = value.indices().iter().any(|index| index.coefficient(var.name) != 0);
        let mut accesses = value.accesses().into_iter().filter(|access| access.mentions(var.name));
        let (Some(access), None) = (accesses.next(), accesses.next()) else { return None };
        if var.extent == 1 || is_number || target.mentions(var.name) {
            return None;
        }
        let is_its = |term: &&Value| term.accesses().iter().any(|other| std::ptr::eq(*other, access));
        let term = terms(value).into_iter().find(is_its)?;
        let lacks = |other: &&IndexVar| {
            let name = other.name;
            other.extent > 1 && !access.mentions(name) && term.accesses().iter().any(|factor| factor.mentions(name))
        };
        let again: Vec<_> = kernel.vars().iter().filter(lacks).map(|other| other.name).collect();
        (!again.is_empty()).then(|| Hint::LoneIndex { index: var.name, access: access.to_string(), again })
    };
    kernel.vars().iter().filter_map(hint).collect()
}

/// Factors without which the statement would be a matrix product, each with fewer indices than the statement.
fn factors_of_product(context: &Context<'_>, leaf: &Leaf) -> Option<Hint> {
    let kernel = context.kernel();
    let asked = context.state.tensorized.as_ref().and_then(|tensorized| tensorized.kind);
    let points = kernel.vars().iter().fold(1, |points: usize, var| points.saturating_mul(var.extent));
    if leaf.op != LeafOp::Nest || asked.is_some() || points < FEWEST_POINTS {
        return None;
    }
    let mut spec = kernel.spec().clone();
    let mut value = spec.value.clone();
    let (mut factors, mut held) = (Vec::new(), Vec::new());
    for factor in other_factors(&mut value) {
        let accesses = factor.accesses().into_iter().flat_map(|access| &access.index);
        let terms = accesses.chain(factor.indices()).flat_map(|index| &index.terms);
        let vars = each_once(terms.map(|(name, _)| &kernel.vars()[position(kernel, *name)]));
        let is_free = |name: &Name| {
            spec.inputs.iter().chain([&spec.output]).all(|(other, _)| other != name)
                && spec.scalars.iter().all(|(other, _)| other != name)
                && kernel.vars().iter().all(|var| var.name != *name)
        };
        let mut names = ["T".into()].into_iter().chain((2..).map(|nth| Name::new(&format!("T{nth}"))));
        let name = names.find(is_free).filter(|_| vars.len() < kernel.vars().len())?;
        let access = Access::new(name, vars.iter().map(|var| Affine::new([(var.name, 1)], 0)).collect());
        let end = |var: &&IndexVar| i128::from(var.start) + var.extent as i128;
        spec.inputs.push((name, vars.iter().map(end).collect()));
        factors.push(factor.to_string());
        held.push(access.to_string());
        *factor = Value::Access(access);
    }
    spec.value = value;
    let read: Vec<_> = spec.value.accesses().iter().map(|access| access.tensor).collect();
    spec.inputs.retain(|(name, _)| read.contains(name));
    let product = spec.check().ok().filter(|_| !factors.is_empty())?;
    let counts = max_counts(leaf, &context.ranges);
    let counts = product.vars().iter().map(|var| counts[position(kernel, var.name)]).collect();
    matrix_product(&product, counts).map(|_| Hint::FactorsOfProduct { factors, held })
}

/// The factors of a value that are neither elements of tensors nor without an index.
fn other_factors(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Mul(a, b) => other_factors(a).into_iter().chain(other_factors(b)).collect(),
        Value::Neg(inner) => other_factors(inner),
        Value::Access(access) if access.outside.is_none() => Vec::new(),
        value if value.accesses().is_empty() && value.indices().is_empty() => Vec::new(),
        value => vec![value],
    }
}

/// A dimension of the output that is sharded in blocks along one axis, over which the loop that writes it is not distributed
/// as a whole.
fn moved_output(context: &Context<'_>, output: &Planned) -> Option<Hint> {
    if output.route.is_local() || output.route.shift().is_some() || output.route.algorithm().is_some() {
        return None;
    }
    let (kernel, nest) = (context.kernel(), context.nest());
    let tensor = kernel.output().name;
    let sharding = context.state.sharding(tensor);
    let mesh = &context.state.mesh;
    let dims = kernel.target().index.iter().zip(sharding.dims());
    dims.into_iter().find_map(|(index, layout)| {
        let [LevelLayout { at, cyclic: false, parts, .. }] = layout.levels() else { return None };
        let (&[(axis, 1)], None, &[(name, 1)], None) = (&at.terms[..], at.modulus, &index.terms[..], index.modulus)
        else {
            return None;
        };
        let axis = mesh.as_slice()[axis];
        let id = NodeId(position(kernel, name));
        let over = match &nest.node(id).definition {
            Definition::Split { outer, offset, .. } if *offset == index.constant => bound_axis(context, *outer),
            _ => None,
        };
        let moved = axis.extent > 1 && *parts == axis.extent && over != Some(axis.name);
        moved.then_some(Hint::MovedOutput { tensor, index: name, axis: axis.name, over })
    })
}

fn replicated_output(context: &Context<'_>) -> Option<Hint> {
    let tensor = context.kernel().output();
    let sharded = context.state.shards.iter().any(|shard| shard.tensor == tensor.name);
    // One element cannot be sharded.
    if sharded || context.state.mesh.size() == 1 || tensor.ndim() == 0 {
        return None;
    }
    let size = context.kernel().dtype().size() as u64;
    let bytes = context.state.sharding(tensor.name).largest_shard().saturating_mul(size);
    Some(Hint::ReplicatedOutput { tensor: tensor.name, bytes })
}

fn one_element(context: &Context<'_>, tensor: Name, transfer: &Planned) -> Option<Hint> {
    let around = &context.nest().inside(Depth(0))[..transfer.level.0];
    let repeats = around.iter().map(|&id| context.state.nest.node(id)).rfind(|node| node.extent > 1)?;
    (transfer.tile.capacity == 1).then_some(Hint::OneElementMessages { tensor, at: repeats.name })
}

/// The points of a leaf that a core computes in one or a few microseconds, the minimum latency of a message between two processes.
const FEWEST_POINTS: usize = 1 << 12;

/// Pipelined panels that ranks have to wait for nevertheless.
fn idle_pipeline(context: &Context<'_>, tensor: Name, transfer: &Planned, leaf: &Leaf, depth: Depth) -> Option<Hint> {
    let (around, inside) = context.nest().inside(Depth(0)).split_at(transfer.level.0);
    let at = context.state.nest.node(*around.last()?);
    if at.extent <= 1 {
        return Some(Hint::NothingHidden { tensor, at: at.name });
    }
    // The points of one iteration: all loops between it and the leaf, and those of the leaf.
    let serial = inside[..depth.0 - transfer.level.0].iter().map(|&id| context.state.nest.node(id).extent);
    let points = serial
        .chain(max_counts(leaf, &context.ranges))
        .fold(1, |points: usize, count| points.saturating_mul(count.max(0) as usize));
    if points < FEWEST_POINTS {
        let operations = context.kernel().operations_per_point().saturating_mul(points as u64);
        return Some(Hint::SmallSteps { tensor, at: at.name, operations });
    }
    matches!(leaf.op, LeafOp::Named { .. } | LeafOp::Products { .. }).then_some(Hint::LeafNotCut { tensor })
}

/// A halo that arrives while nothing is computed, since every iteration reads some of it, or one that is not fetched at all.
pub(crate) fn idle_interior(context: &Context<'_>, nest: &NestView<'_>) -> Option<Hint> {
    let Some(halo) = nest.transfers.iter().find(|transfer| transfer.interior_first) else {
        let asked = context.state.interiors.first().filter(|_| nest.mesh.size() > 1 && !nest.kernel.is_empty());
        return asked.map(|&(tensor, _)| Hint::NoHalo { tensor });
    };
    let is_empty = !nest.kernel.is_empty() && nest.interior_part() == 0.0;
    is_empty.then(|| Hint::NoInterior { tensor: nest.tensor_name(halo.tensor) })
}

/// A region that fits in a block, moves along it and may start anywhere in it.
fn crossed_blocks(context: &Context<'_>, transfer: &Planned, tensor: &Tensor) -> Option<Hint> {
    transfer.route.exchange()?;
    let sharding = context.state.sharding(tensor.name);
    let dims = sharding.dims().iter().zip(&transfer.region.ranges).enumerate();
    dims.into_iter().find_map(|(dim, (layout, (low, high)))| {
        let [LevelLayout { parts, block, cyclic: false, .. }] = layout.levels() else { return None };
        let (panel, block) = (high.subtract(low).bounds(&context.ranges).1, *block as i64);
        let walks = transfer.level.loops().any(|counter| low.mentions(Symbol::Counter(counter)));
        if *parts == 1 || panel > block || !walks || panel <= gcd(alignment(low), block) {
            return None;
        }
        let accesses = context.kernel().accesses_of(tensor.name);
        let index = accesses.first().and_then(|access| access.index[dim].as_variable());
        let placements = sharding.placements();
        let axes = placements.iter().find_map(|placement| match placement {
            Placement::Divided { dim: placed, levels } if *placed == dim => match &levels[..] {
                [Division::Block { at }] => Some(at.to_string()),
                _ => None,
            },
            _ => None,
        })?;
        Some(Hint::CrossedBlocks { tensor: tensor.name, dim, index, panel, block, axes })
    })
}

/// A tile of more than twice as many elements as the accesses can read.
fn loose_tile(context: &Context<'_>, tensor: &Tensor, transfer: &Planned) -> Option<Hint> {
    let (operands, Transfer { level, region, .. }) = (&transfer.operands, &transfer.transfer);
    let most = region.max_extents(&context.ranges);
    let tile = most.iter().try_fold(1i64, |product, &extent| product.checked_mul(extent))?;
    let fixed = context.fixed(*level);
    let read_by = |access: &Access| {
        access.index.iter().zip(&most).fold(1i64, |product, (index, &extent)| {
            let values = index.terms.iter().fold(1i64, |values, &(name, _)| {
                let span = fixed.variable(position(context.kernel(), name));
                values.saturating_mul(span.count(&context.ranges).bounds(&context.ranges).1.max(0))
            });
            product.saturating_mul(values.min(extent))
        })
    };
    let accesses = context.kernel().value().accesses();
    let read = operands.iter().map(|operand| read_by(accesses[operand.0])).fold(0i64, i64::saturating_add);
    (tile > read.saturating_mul(2)).then_some(Hint::LooseTile { tensor: tensor.name, tile, read })
}

fn leaf_hint(context: &Context<'_>, leaf: &Leaf, depth: Depth) -> Option<Hint> {
    let nest = context.nest();
    let name = |id: &NodeId| nest.node(*id).name;
    let around = &nest.inside(Depth(0))[..depth.0];
    let counts = max_counts(leaf, &context.ranges);
    let instances = counts.iter().copied().max().unwrap_or(1);
    let runs = around.iter().any(|&id| nest.node(id).extent > 1);
    (instances <= 1 && runs).then(|| Hint::LeafPerInstance { loops: around.iter().map(name).collect() })
}
