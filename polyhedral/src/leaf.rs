//! The leaf: which index variables run inside it, and which operation it is.

use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::isl::IslResult;
use crate::named;
use crate::nest::Depth;
use crate::planned::Planned;
use crate::products::{Plan, Shape};
use crate::range::position;
use crate::state::Tensorized;
use polyshard_layout::{each_once, joined};
use polyshard_program::{
    Access, Affine, Assign, Blocks, Kernel, Leaf, LeafAccess, LeafKind, LeafLoop, LeafLoopId, LeafNumber, LeafOp,
    Number, Ranges, Region, Role, StepId, TensorId, Value,
};

/// The leaf and its depth.
pub(crate) fn leaf(context: &Context<'_>, transfers: &[Planned]) -> Result<(Leaf, Depth), LowerError> {
    if let Some(tensorized) = &context.state.tensorized {
        let depth = Depth(context.nest().innermost().0 - tensorized.loops.len());
        return Ok((asked_for(context, tensorized, depth)?, depth));
    }
    // Without `tensorize`, the loops inside the last transfer run as a single nest or product as far as they are boxes.
    let outermost = transfers.iter().map(|transfer| transfer.level).max().unwrap_or_default();
    let outermost = outermost.max(context.shared_depth());
    for depth in (outermost.0..=context.nest().innermost().0).map(Depth) {
        let mut leaf = at_depth(context, depth, LeafOp::Nest, None);
        if is_box(context, &leaf, depth)? {
            // Only a nest computes its interior first, or the next time step.
            let may_be_product = context.applications.is_none() && transfers.iter().all(|one| !one.interior_first);
            let product = matrix_product(context.kernel(), max_counts(&leaf, &context.ranges));
            leaf.op = product.filter(|_| may_be_product).unwrap_or(LeafOp::Nest);
            return Ok((leaf, depth));
        }
    }
    Err(context.not_proved("the values of the indices at one point"))
}

/// The leaf of a `tensorize` step.
fn asked_for(context: &Context<'_>, tensorized: &Tensorized, depth: Depth) -> Result<Leaf, LowerError> {
    let blame = |kind| context.blame(Some(tensorized.step), kind);
    let (kernel, asserted) = (context.kernel(), tensorized.kind);
    let mut leaf = at_depth(context, depth, LeafOp::Nest, Some(tensorized.step));
    if !is_box(context, &leaf, depth)? {
        let vars: Vec<_> = kernel.vars().iter().map(|var| var.name).collect();
        return Err(blame(ErrorKind::NotABox { loops: joined(&tensorized.loops, ", "), vars: joined(&vars, ", ") }));
    }
    leaf.op = match asserted {
        Some(LeafKind::Nest) => LeafOp::Nest,
        Some(LeafKind::Named(name)) => named::build(kernel, context.nest(), depth, name).map_err(blame)?,
        None | Some(LeafKind::Contraction) => {
            match (product_op(kernel, max_counts(&leaf, &context.ranges)), asserted) {
                (Ok(product), _) => product,
                (Err(_), None) => LeafOp::Nest,
                (Err(why), Some(asserted)) => {
                    let (found, asserted) = (LeafKind::Nest.to_string(), asserted.to_string());
                    return Err(blame(ErrorKind::OtherLeaf { found, asserted, why }));
                }
            }
        }
    };
    Ok(leaf)
}

/// The loops and accesses of a leaf that does `op` at a depth.
fn at_depth(context: &Context<'_>, depth: Depth, op: LeafOp, step: Option<StepId>) -> Leaf {
    let (kernel, ranges, fixed) = (context.kernel(), &context.ranges, context.fixed(depth));
    let spans: Vec<_> = (0..kernel.vars().len()).map(|var| fixed.variable(var)).collect();
    let loops = kernel.vars().iter().zip(&spans).map(|(var, span)| LeafLoop {
        var: var.name,
        low: span.low.clone(),
        count: span.count(ranges),
        stride: span.stride(),
    });
    let loops: Vec<_> = loops.collect();
    let access = |access: &Access| {
        let tensor = kernel.tensors().position(|tensor| tensor.name == access.tensor);
        let tensor = tensor.expect("a checked kernel declares all its tensors; this is a bug in polyshard");
        LeafAccess::new(access, TensorId(tensor), &loops)
    };
    Leaf {
        target: access(kernel.target()),
        operands: kernel.value().accesses().into_iter().map(access).collect(),
        numbers: kernel.value().indices().into_iter().map(|index| LeafNumber::new(index, &loops)).collect(),
        loops,
        op,
        overwrites: false,
        interior: None,
        step,
    }
}

/// The maximum number of iterations of each loop of a leaf.
pub(crate) fn max_counts(leaf: &Leaf, ranges: &Ranges) -> Vec<i64> {
    leaf.loops.iter().map(|l| l.count.bounds(ranges).1).collect()
}

/// Whether the leaf's loops run exactly the instances of their iteration.
fn is_box(context: &Context<'_>, leaf: &Leaf, depth: Depth) -> Result<bool, LowerError> {
    let all: Vec<_> = (0..leaf.loops.len()).collect();
    let decision = || {
        // If it holds for each group of indices that share no inner loop, it holds for all of them.
        for group in context.nest().components(all.len(), depth) {
            if context.samples.is_some() && group.iter().all(|&var| context.fixed(depth).is_surely_range(var)) {
                continue;
            }
            if !is_box_of(context, leaf, &group, depth)? {
                return is_box_of(context, leaf, &all, depth);
            }
        }
        Ok(true)
    };
    context.decided("the leaf's instances", decision())
}

/// Whether these loops of the leaf run over exactly the values that their indices have in some instance.
fn is_box_of(context: &Context<'_>, leaf: &Leaf, vars: &[usize], depth: Depth) -> IslResult<bool> {
    let loops: Vec<_> = vars.iter().map(|&var| &leaf.loops[var]).collect();
    let indices: Vec<_> = loops.iter().map(|l| Affine::new([(l.var, 1)], 0)).collect();
    // `count` rounds up, so this end is at most one stride beyond the last value.
    let ranges = loops.iter().map(|l| (l.low.clone(), l.low.add(&l.count.multiply(l.stride)))).collect();
    let blocks = loops.iter().map(|l| Blocks::points(l.stride)).collect();
    let values = Region { blocks, ..Region::of_ranges(ranges) };
    let exact = context.relation(&context.relations.needed(depth, &indices))?;
    exact.is_equal(&context.relation(&context.relations.elements(depth, &values))?)
}

/// The roles of the variables and the scalar factor, if the kernel is a sum of products of two tensors.
pub(crate) fn contraction(kernel: &Kernel) -> Result<(Vec<Role>, Value), String> {
    let (accesses, alpha) = factors(kernel)?;
    let [a, b] = accesses[..] else {
        let why = if accesses.len() < 2 { "is not a product of two tensors" } else { "is as fast in one nest" };
        return Err(format!("`{}` {why}", kernel.value()));
    };
    let [a, b] = [a.unwrapped(), b.unwrapped()];
    let mut roles = Vec::new();
    for var in kernel.vars() {
        let in_each = (a.mentions(var.name), b.mentions(var.name), kernel.target().mentions(var.name));
        roles.push(match in_each {
            (true, true, true) => Role::Batch,
            (true, false, true) => Role::M,
            (false, true, true) => Role::N,
            (true, true, false) => Role::K,
            _ => return Err(format!("`{}` does not index two of the three tensors", var.name)),
        });
    }
    if !roles.contains(&Role::K) {
        return Err("no index is summed over both operands".into());
    }
    if !roles.contains(&Role::M) && !roles.contains(&Role::N) {
        return Err("no index is in the output and in only one operand".into());
    }
    Ok((roles, alpha))
}

/// The fastest sequence of matrix products for the kernel, or why it is a nest.
fn product_op(kernel: &Kernel, counts: Vec<i64>) -> Result<LeafOp, String> {
    match (contraction(kernel), products(kernel, counts)) {
        (Ok((roles, alpha)), _) => Ok(LeafOp::Contraction { roles, alpha }),
        (_, Some((plan, alpha))) => Ok(LeafOp::Products { steps: plan.steps, blocks: plan.blocks, alpha }),
        (Err(why), None) => Err(why),
    }
}

/// The products that are faster than a nest with these iterations of the kernel's variables, if any. A product of a matrix and a vector
/// is not: it waits for memory, which a nest reads while it computes.
pub(crate) fn matrix_product(kernel: &Kernel, counts: Vec<i64>) -> Option<LeafOp> {
    let is_matrix = |roles: &[Role]| {
        let has = |role: Role| roles.iter().zip(&counts).any(|(own, count)| *own == role && *count > 1);
        has(Role::M) && has(Role::N)
    };
    match product_op(kernel, counts.clone()).ok()? {
        LeafOp::Contraction { roles, .. } if !is_matrix(&roles) => None,
        product => Some(product),
    }
}

/// The products and the scalar factor, if the kernel is a sum of products of several tensors for which a nest is slower.
fn products(kernel: &Kernel, counts: Vec<i64>) -> Option<(Plan, Value)> {
    let (accesses, alpha) = factors(kernel).ok()?;
    let loops = |access: &Access| -> Vec<LeafLoopId> {
        let access = access.unwrapped();
        let terms = access.index.iter().flat_map(|index| &index.terms);
        each_once(terms.map(|&(name, _)| LeafLoopId(position(kernel, name))))
    };
    let shape = Shape {
        counts,
        operands: accesses.into_iter().map(loops).collect(),
        target: loops(kernel.target()),
        size: kernel.dtype().size() as i64,
    };
    Some((shape.plan()?, alpha))
}

/// The tensors and the scalar factor of a kernel that adds up products.
fn factors(kernel: &Kernel) -> Result<(Vec<&Access>, Value), String> {
    if !matches!(kernel.assign(), Assign::Set | Assign::Add) {
        return Err(format!("`{}` does not add up products", kernel.assign()));
    }
    let mut accesses = Vec::new();
    let mut factors = Vec::new();
    flatten(kernel.value(), &mut accesses, &mut factors)
        .ok_or_else(|| format!("`{}` is not a product", kernel.value()))?;
    let alpha = factors.into_iter().reduce(|a, b| Value::Mul(Box::new(a), Box::new(b)));
    Ok((accesses, alpha.unwrap_or(Value::Literal(Number::Int(1)))))
}

fn flatten<'a>(value: &'a Value, accesses: &mut Vec<&'a Access>, factors: &mut Vec<Value>) -> Option<()> {
    match value {
        _ if value.accesses().is_empty() && value.indices().is_empty() => factors.push(value.clone()),
        // Matrix products cannot read values outside a tensor.
        Value::Access(access) if access.outside.is_some() => return None,
        Value::Access(access) => accesses.push(access),
        Value::Mul(a, b) => {
            flatten(a, accesses, factors)?;
            flatten(b, accesses, factors)?;
        }
        Value::Neg(inner) => {
            factors.push(Value::Literal(Number::Int(-1)));
            flatten(inner, accesses, factors)?;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
