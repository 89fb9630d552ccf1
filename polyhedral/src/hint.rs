//! Hints: what is legal but likely slow, with what would cure it.
//!
//! A hint never stops a program and never changes it. Each is decided from the closed forms of the program that was
//! proved, so that it costs no question to isl; a doubtful case gets none.

use crate::expr::{Expr, Symbol};
use crate::kernel::{Access, Tensor};
use crate::leaf::has_products;
use crate::lower::Pass;
use crate::nest::{Made, NodeId};
use crate::program::{Leaf, LeafOp, Output, OutputRoute, Route, Transfer};
use crate::range::{Fixed, gcd, position};
use crate::report::largest_shard;
use crate::step::{Step, list};
use polyshard_layout::{LevelLayout, Name, Placement};
use std::fmt;
use std::ops::Range;

/// Something legal that is likely slow, or not what was meant; its text says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The statement is a matrix product, but runs as a scalar loop nest.
    ScalarProduct {
        /// The loops that would make a leaf.
        loops: Vec<Name>,
    },
    /// The leaf has one instance.
    LeafPerInstance {
        /// The serial loops around it.
        loops: Vec<Name>,
    },
    /// Iterations of a loop never have anything to do.
    EmptyIterations {
        /// The loop.
        name: Name,
        /// The iterations that are empty.
        empty: Range<i64>,
        /// The mesh axis that the loop is bound to, if it is.
        axis: Option<Name>,
        /// The step that made the loop, as text.
        step: String,
    },
    /// A message carries one element.
    OneElementMessages {
        /// The tensor.
        tensor: Name,
        /// The loop in whose iterations it moves.
        at: Name,
    },
    /// A panel lies in the blocks of two owners.
    CrossedBlocks {
        /// The tensor.
        tensor: Name,
        /// The dimension.
        dim: usize,
        /// The index that walks the dimension, if one does alone.
        index: Option<Name>,
        /// Indices in a panel.
        panel: i64,
        /// Indices in a block.
        block: i64,
        /// The axes that own the blocks, as they are written.
        axes: String,
    },
    /// The output is replicated because no step shards it.
    ReplicatedOutput {
        /// The output.
        tensor: Name,
        /// Bytes of it that each rank holds.
        bytes: u64,
    },
    /// A tile holds far more than is read of it.
    LooseTile {
        /// The tensor.
        tensor: Name,
        /// Elements of the tile.
        tile: i64,
        /// Elements read at most.
        read: i64,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScalarProduct { loops } => {
                let loops = list(loops);
                write!(f, "the statement is a product, but runs element by element: add `.tensorize([{loops}])`")
            }
            Self::LeafPerInstance { loops } => write!(
                f,
                "the leaf computes one element at a time inside loops {}: communicate at an outer loop, and do not `fuse` \
                 loops that the leaf could run",
                list(loops)
            ),
            Self::EmptyIterations { name, empty, axis: None, step } => write!(
                f,
                "iterations {}..{} of loop `{name}` are always empty, after `{step}`: {} parts are enough",
                empty.start, empty.end, empty.start
            ),
            Self::EmptyIterations { empty, axis: Some(axis), step, .. } => write!(
                f,
                "ranks at {axis} = {}..{} have nothing to compute, after `{step}`: {} along {axis} are enough",
                empty.start, empty.end, empty.start
            ),
            Self::OneElementMessages { tensor, at } => write!(
                f,
                "`{tensor}` moves one element at a time, in each iteration of `{at}`: communicate it at an outer \
                 loop, or divide into larger panels"
            ),
            Self::CrossedBlocks { tensor, dim, index, panel, block, axes } => {
                let index = index.map_or_else(|| format!("dim({dim})"), |index| index.to_string());
                write!(
                    f,
                    "panels of `{tensor}` have {panel} indices of `{index}`, blocks have {block}, so some panels have \
                     several owners: let the size of a panel divide {block}, or shard block-cyclic, \
                     `{index}.cyclic({axes}, {panel})`"
                )
            }
            Self::ReplicatedOutput { tensor, bytes } => write!(
                f,
                "`{tensor}` has no `shard`, so each rank receives and holds all {bytes} bytes of it: shard it"
            ),
            Self::LooseTile { tensor, tile, read } => write!(
                f,
                "a tile of `{tensor}` holds {tile} elements, of which at most {read} are read, since it is one box \
                 around all accesses: communicate it at an inner loop, or pass it as two tensors"
            ),
        }
    }
}

/// The hints at a program, in the order of its parts.
pub(crate) fn hints(pass: &Pass<'_>, transfers: &[Transfer], output: &Output, leaf: &Leaf, depth: usize) -> Vec<Hint> {
    let kernel = &pass.state.kernel;
    if kernel.vars().iter().any(|var| var.extent == 0) {
        return Vec::new();
    }
    let mut hints = empty_iterations(pass);
    hints.extend(replicated_output(pass));
    for transfer in transfers.iter().filter(|transfer| moves(&transfer.route)) {
        let tensor = &kernel.inputs()[transfer.tensor];
        hints.extend(crossed_blocks(pass, transfer, tensor));
        hints.extend(one_element(pass, tensor.name, transfer.capacity, transfer.level));
    }
    for transfer in transfers.iter().filter(|transfer| transfer.capacity > 0) {
        let tensor = &kernel.inputs()[transfer.tensor];
        hints.extend(loose_tile(pass, tensor, transfer));
    }
    if !matches!(output.route, OutputRoute::InPlace | OutputRoute::Combine) {
        hints.extend(one_element(pass, kernel.output().name, output.capacity, output.level));
    }
    hints.extend(leaf_hint(pass, leaf, depth));
    hints
}

/// Whether ranks communicate.
fn moves(route: &Route) -> bool {
    !matches!(route, Route::Hold | Route::Copy)
}

/// Parts beyond those that have indices, of loops that were divided.
fn empty_iterations(pass: &Pass<'_>) -> Vec<Hint> {
    let nest = &pass.state.nest;
    let steps: Vec<&Step> = pass.steps().collect();
    let split = nest.nodes.iter().filter_map(|node| match &node.made {
        Made::Split { outer, factor, .. } if node.extent > 0 => Some((node.extent, *outer, *factor)),
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
            let axis = axis.map(|axis| pass.state.mesh.as_slice()[axis].name);
            Hint::EmptyIterations { name: node.name, empty: filled..node.extent, axis, step }
        })
        .collect()
}

fn replicated_output(pass: &Pass<'_>) -> Option<Hint> {
    let tensor = pass.state.kernel.output();
    let sharded = pass.state.shards.iter().any(|shard| shard.tensor == tensor.name);
    if sharded || pass.state.mesh.size() == 1 {
        return None;
    }
    let size = pass.state.kernel.dtype().size() as u64;
    let bytes = largest_shard(&pass.state.sharding(tensor.name)).saturating_mul(size);
    Some(Hint::ReplicatedOutput { tensor: tensor.name, bytes })
}

fn one_element(pass: &Pass<'_>, tensor: Name, capacity: usize, level: usize) -> Option<Hint> {
    let around = &pass.state.nest.loops[pass.distributed()..][..level];
    let repeats = around.iter().map(|&id| pass.state.nest.node(id)).rfind(|node| node.extent > 1)?;
    (capacity == 1).then_some(Hint::OneElementMessages { tensor, at: repeats.name })
}

/// A region that fits a block, walks along it and may start anywhere in it.
fn crossed_blocks(pass: &Pass<'_>, transfer: &Transfer, tensor: &Tensor) -> Option<Hint> {
    let routes_of_several_owners = match &transfer.route {
        Route::Shift { first, .. } => &**first,
        route => route,
    };
    if !matches!(routes_of_several_owners, Route::Exchange { .. }) {
        return None;
    }
    let sharding = pass.state.sharding(tensor.name);
    let dims = sharding.dims().iter().zip(&transfer.region.ranges).enumerate();
    dims.into_iter().find_map(|(dim, (layout, (low, high)))| {
        let [LevelLayout { parts, block, cyclic: false, .. }] = layout.levels() else { return None };
        let (panel, block) = (high.minus(low).bounds(pass.ranges).1, *block as i64);
        let walks = (0..transfer.level).any(|counter| low.mentions(Symbol::Counter(counter)));
        if *parts == 1 || panel > block || !walks || panel <= gcd(alignment(low), block) {
            return None;
        }
        let accesses = pass.state.kernel.accesses_of(tensor.name);
        let index = accesses.first().and_then(|access| access.index[dim].as_variable());
        let placements = sharding.placements();
        let axes = placements.iter().find_map(|placement| match placement {
            Placement::Block { dim: placed, at } if *placed == dim => Some(at.to_string()),
            _ => None,
        })?;
        Some(Hint::CrossedBlocks { tensor: tensor.name, dim, index, panel, block, axes })
    })
}

/// The greatest number that divides every value of the expression, as far as its form shows.
fn alignment(expr: &Expr) -> i64 {
    expr.terms().fold(expr.offset(), |divisor, (_, factor)| gcd(divisor, factor))
}

/// More than twice of what the accesses can read.
fn loose_tile(pass: &Pass<'_>, tensor: &Tensor, transfer: &Transfer) -> Option<Hint> {
    let Transfer { operands, level, region, .. } = transfer;
    let most = region.most(pass.ranges);
    let tile = most.iter().try_fold(1i64, |product, &extent| product.checked_mul(extent))?;
    let fixed = Fixed { nest: &pass.state.nest, fixed: pass.distributed() + level, ranges: pass.ranges };
    let read_by = |access: &Access| {
        access.index.iter().zip(&most).fold(1i64, |product, (index, &extent)| {
            let values = index.terms.iter().fold(1i64, |values, &(name, _)| {
                let span = fixed.variable(position(&pass.state.kernel, name));
                values.saturating_mul(span.count(pass.ranges).bounds(pass.ranges).1.max(0))
            });
            product.saturating_mul(values.min(extent))
        })
    };
    let accesses = pass.state.kernel.value().accesses();
    let read = operands.iter().map(|&operand| read_by(accesses[operand])).fold(0i64, i64::saturating_add);
    (tile > read.saturating_mul(2)).then_some(Hint::LooseTile { tensor: tensor.name, tile, read })
}

fn leaf_hint(pass: &Pass<'_>, leaf: &Leaf, depth: usize) -> Option<Hint> {
    let nest = &pass.state.nest;
    let name = |id: &NodeId| nest.node(*id).name;
    let (around, inside) = nest.loops[pass.distributed()..].split_at(depth);
    let instances = leaf.loops.iter().map(|l| l.count.bounds(pass.ranges).1).max().unwrap_or(1);
    let runs = around.iter().any(|&id| nest.node(id).extent > 1);
    if instances <= 1 && runs {
        return Some(Hint::LeafPerInstance { loops: around.iter().map(name).collect() });
    }
    let counts = || leaf.loops.iter().map(|l| l.count.bounds(pass.ranges).1).collect();
    let nest = leaf.op == LeafOp::Nest && pass.state.tensorized.is_none();
    let product = nest && has_products(&pass.state.kernel, counts());
    product.then(|| Hint::ScalarProduct { loops: inside.iter().map(name).collect() })
}
