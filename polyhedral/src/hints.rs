//! Finding what is likely slow in a program, as [`Hint`]s.

use crate::context::Context;
use crate::leaf::{has_products, max_counts};
use crate::nest::{Definition, Depth, NodeId};
use crate::range::{alignment, gcd, position};
use polyshard_dsl::Step;
use polyshard_layout::{Level, LevelLayout, Name, Placement};
use polyshard_program::{
    Access, Hint, Leaf, LeafOp, Output, OutputRoute, Route, Symbol, Tensor, Transfer, largest_shard,
};

/// The hints at a program, in the order of its parts.
pub(crate) fn find(
    context: &Context<'_>,
    transfers: &[Transfer],
    output: &Output,
    leaf: &Leaf,
    depth: Depth,
) -> Vec<Hint> {
    let kernel = context.kernel();
    if kernel.vars().iter().any(|var| var.extent == 0) {
        return Vec::new();
    }
    let mut hints = empty_iterations(context);
    hints.extend(replicated_output(context));
    for transfer in transfers.iter().filter(|transfer| moves(&transfer.route)) {
        let tensor = &kernel.inputs()[transfer.tensor];
        hints.extend(crossed_blocks(context, transfer, tensor));
        hints.extend(one_element(context, tensor.name, transfer.capacity, transfer.level));
    }
    for transfer in transfers.iter().filter(|transfer| transfer.capacity > 0) {
        let tensor = &kernel.inputs()[transfer.tensor];
        hints.extend(loose_tile(context, tensor, transfer));
    }
    if !matches!(output.route, OutputRoute::InPlace | OutputRoute::Combine) {
        hints.extend(one_element(context, kernel.output().name, output.capacity, output.level));
    }
    hints.extend(leaf_hint(context, leaf, depth));
    hints
}

/// Whether ranks communicate.
fn moves(route: &Route) -> bool {
    !matches!(route, Route::Hold | Route::Copy)
}

/// Parts beyond those that have indices, of loops that were divided.
fn empty_iterations(context: &Context<'_>) -> Vec<Hint> {
    let nest = context.nest();
    let steps: Vec<&Step> = context.schedule.steps().collect();
    let split = nest.nodes.iter().filter_map(|node| match &node.definition {
        Definition::Split { outer, factor, .. } if node.extent > 0 => Some((node.extent, *outer, *factor)),
        _ => None,
    });
    let empty = split.filter_map(|(extent, outer, factor)| {
        let filled = extent / factor + i64::from(extent % factor != 0);
        (filled < nest.node(outer).extent).then_some((outer, nest.node(outer), filled))
    });
    empty
        .map(|(id, node, filled)| {
            let axis = nest.loops[..nest.distributed].iter().position(|&bound| bound == id);
            let step = node.steps.first().map(|&step| steps[step - 1].to_string()).unwrap_or_default();
            let axis = axis.map(|axis| context.state.mesh.as_slice()[axis].name);
            Hint::EmptyIterations { name: node.name, empty: filled..node.extent, axis, step }
        })
        .collect()
}

fn replicated_output(context: &Context<'_>) -> Option<Hint> {
    let tensor = context.kernel().output();
    let sharded = context.state.shards.iter().any(|shard| shard.tensor == tensor.name);
    if sharded || context.state.mesh.size() == 1 {
        return None;
    }
    let size = context.kernel().dtype().size() as u64;
    let bytes = largest_shard(&context.state.sharding(tensor.name)).saturating_mul(size);
    Some(Hint::ReplicatedOutput { tensor: tensor.name, bytes })
}

fn one_element(context: &Context<'_>, tensor: Name, capacity: usize, level: usize) -> Option<Hint> {
    let around = &context.nest().inside(Depth(0))[..level];
    let repeats = around.iter().map(|&id| context.state.nest.node(id)).rfind(|node| node.extent > 1)?;
    (capacity == 1).then_some(Hint::OneElementMessages { tensor, at: repeats.name })
}

/// A region that fits a block, walks along it and may start anywhere in it.
fn crossed_blocks(context: &Context<'_>, transfer: &Transfer, tensor: &Tensor) -> Option<Hint> {
    let routes_of_several_owners = match &transfer.route {
        Route::Shift { first, .. } => &**first,
        route => route,
    };
    if !matches!(routes_of_several_owners, Route::Exchange { .. }) {
        return None;
    }
    let sharding = context.state.sharding(tensor.name);
    let dims = sharding.dims().iter().zip(&transfer.region.ranges).enumerate();
    dims.into_iter().find_map(|(dim, (layout, (low, high)))| {
        let [LevelLayout { parts, block, cyclic: false, .. }] = layout.levels() else { return None };
        let (panel, block) = (high.subtract(low).bounds(&context.ranges).1, *block as i64);
        let walks = (0..transfer.level).any(|counter| low.mentions(Symbol::Counter(counter)));
        if *parts == 1 || panel > block || !walks || panel <= gcd(alignment(low), block) {
            return None;
        }
        let accesses = context.kernel().accesses_of(tensor.name);
        let index = accesses.first().and_then(|access| access.index[dim].as_variable());
        let placements = sharding.placements();
        let axes = placements.iter().find_map(|placement| match placement {
            Placement::Divided { dim: placed, levels } if *placed == dim => match &levels[..] {
                [Level::Block { at }] => Some(at.to_string()),
                _ => None,
            },
            _ => None,
        })?;
        Some(Hint::CrossedBlocks { tensor: tensor.name, dim, index, panel, block, axes })
    })
}

/// More than twice of what the accesses can read.
fn loose_tile(context: &Context<'_>, tensor: &Tensor, transfer: &Transfer) -> Option<Hint> {
    let Transfer { operands, level, region, .. } = transfer;
    let most = region.max_extents(&context.ranges);
    let tile = most.iter().try_fold(1i64, |product, &extent| product.checked_mul(extent))?;
    let fixed = context.fixed(Depth(*level));
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
    let read = operands.iter().map(|&operand| read_by(accesses[operand])).fold(0i64, i64::saturating_add);
    (tile > read.saturating_mul(2)).then_some(Hint::LooseTile { tensor: tensor.name, tile, read })
}

fn leaf_hint(context: &Context<'_>, leaf: &Leaf, depth: Depth) -> Option<Hint> {
    let nest = context.nest();
    let name = |id: &NodeId| nest.node(*id).name;
    let (around, inside) = nest.inside(Depth(0)).split_at(depth.0);
    let counts = max_counts(leaf, &context.ranges);
    let instances = counts.iter().copied().max().unwrap_or(1);
    let runs = around.iter().any(|&id| nest.node(id).extent > 1);
    if instances <= 1 && runs {
        return Some(Hint::LeafPerInstance { loops: around.iter().map(name).collect() });
    }
    let nest = leaf.op == LeafOp::Nest && context.state.tensorized.is_none();
    let product = nest && has_products(context.kernel(), counts);
    product.then(|| Hint::ScalarProduct { loops: inside.iter().map(name).collect() })
}
