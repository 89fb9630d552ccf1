//! The leaf: which index variables run inside it, and what operation that is.

use crate::nest::Nest;
use crate::products::{Plan, Shape};
use crate::range::{Fixed, Span, position};
use polyshard_program::{
    Access, Assign, Expr, Kernel, Leaf, LeafAccess, LeafLoop, LeafOp, Number, Ranges, Role, Value,
};

/// The leaf inside the first `fixed` loops; `product` asks for matrix products where the accesses allow them.
pub(crate) fn build(
    kernel: &Kernel,
    nest: &Nest,
    ranges: &Ranges,
    fixed: usize,
    step: Option<usize>,
    product: bool,
) -> (Leaf, Result<(), String>) {
    let fixed = Fixed { nest, fixed, ranges };
    let spans: Vec<_> = (0..kernel.vars().len()).map(|var| fixed.variable(var)).collect();
    let (op, fits) = if product { product_op(kernel, &spans, ranges) } else { (LeafOp::Nest, Ok(())) };
    let access = |access: &Access| leaf_access(access, kernel, &spans);
    let loops = kernel.vars().iter().zip(&spans).map(|(var, span)| LeafLoop {
        var: var.name,
        low: span.low.clone(),
        count: span.count(ranges),
        step: span.step(),
    });
    let leaf = Leaf {
        loops: loops.collect(),
        target: access(kernel.target()),
        operands: kernel.value().accesses().into_iter().map(access).collect(),
        op,
        step,
    };
    (leaf, fits)
}

fn leaf_access(access: &Access, kernel: &Kernel, spans: &[Span]) -> LeafAccess {
    // A tile holds what a periodic index touches as if it did not wrap, so that the leaf walks with one stride.
    let access = &access.unwrapped();
    let tensor = kernel.tensors().position(|tensor| tensor.name == access.tensor);
    let base = access.index.iter().map(|index| {
        index.terms.iter().fold(Expr::constant(index.constant), |sum, &(name, factor)| {
            sum.plus(&spans[position(kernel, name)].low.times(factor))
        })
    });
    let steps = access.index.iter().map(|index| {
        let vars = kernel.vars().iter().zip(spans);
        vars.map(|(var, span)| index.coefficient(var.name).saturating_mul(span.step())).collect()
    });
    LeafAccess {
        tensor: tensor.expect("a checked kernel declares all its tensors; this is a bug of polyshard"),
        base: base.collect(),
        steps: steps.collect(),
    }
}

/// The roles of the variables and the scalar factor, if the kernel is a sum of products of two tensors.
pub(crate) fn contraction(kernel: &Kernel) -> Result<(Vec<Role>, Value), String> {
    let (accesses, alpha) = factors(kernel)?;
    let [a, b] = accesses[..] else {
        let why = if accesses.len() < 2 { "is not a product of two tensors" } else { "is as fast in one nest" };
        return Err(format!("`{}` {why}", kernel.value()));
    };
    let [a, b] = [a.unwrapped(), b.unwrapped()];
    let has = |access: &Access, var| access.index.iter().any(|index| index.coefficient(var) != 0);
    let mut roles = Vec::new();
    for var in kernel.vars() {
        let in_each = (has(&a, var.name), has(&b, var.name), has(kernel.target(), var.name));
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
        return Err("no index is in the output and in one operand alone".into());
    }
    Ok((roles, alpha))
}

/// The fastest operation for the kernel, and why it is a nest if it is.
fn product_op(kernel: &Kernel, spans: &[Span], ranges: &Ranges) -> (LeafOp, Result<(), String>) {
    let counts = spans.iter().map(|span| span.count(ranges).bounds(ranges).1).collect();
    match (contraction(kernel), products(kernel, counts)) {
        (Ok((roles, alpha)), _) => (LeafOp::Contraction { roles, alpha }, Ok(())),
        (_, Some((plan, alpha))) => (LeafOp::Products { steps: plan.steps, blocks: plan.blocks, alpha }, Ok(())),
        (Err(why), None) => (LeafOp::Nest, Err(why)),
    }
}

/// Whether matrix products would be faster than a nest, with these iterations of the kernel's variables.
pub(crate) fn has_products(kernel: &Kernel, counts: Vec<i64>) -> bool {
    contraction(kernel).is_ok() || products(kernel, counts).is_some()
}

/// The products and the scalar factor, if the kernel is a sum of products of several tensors for which a nest is slower.
fn products(kernel: &Kernel, counts: Vec<i64>) -> Option<(Plan, Value)> {
    let (accesses, alpha) = factors(kernel).ok()?;
    let loops = |access: &Access| -> Vec<usize> {
        let mut loops = Vec::new();
        for index in &access.unwrapped().index {
            let named = index.terms.iter().map(|&(name, _)| position(kernel, name));
            named.for_each(|l| {
                if !loops.contains(&l) {
                    loops.push(l)
                }
            });
        }
        loops
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
        _ if value.accesses().is_empty() => factors.push(value.clone()),
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
