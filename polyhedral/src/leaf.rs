//! The leaf: which index variables run inside it, and what operation that is.

use crate::dtype::Number;
use crate::expr::{Expr, Ranges};
use crate::kernel::{Access, Assign, Kernel};
use crate::nest::Nest;
use crate::program::{Leaf, LeafAccess, LeafLoop, LeafOp, Role};
use crate::range::{Fixed, Span, position};
use crate::value::Value;

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
    let mut order: Vec<usize> = (0..spans.len()).collect();
    let contraction = contraction(kernel);
    let op = match &contraction {
        Ok((roles, alpha)) if product => LeafOp::Contraction { roles: roles.clone(), alpha: alpha.clone() },
        _ => {
            order = nest_order(kernel);
            LeafOp::Nest
        }
    };
    let access = |access: &Access| leaf_access(access, kernel, &spans, &order);
    let loops = order.iter().map(|&var| LeafLoop {
        var: kernel.vars()[var].name,
        low: spans[var].low.clone(),
        count: spans[var].count(ranges),
        step: spans[var].step,
    });
    let leaf = Leaf {
        loops: loops.collect(),
        target: access(kernel.target()),
        operands: kernel.value().accesses().into_iter().map(access).collect(),
        op,
        step,
    };
    (leaf, contraction.map(|_| ()))
}

fn leaf_access(access: &Access, kernel: &Kernel, spans: &[Span], order: &[usize]) -> LeafAccess {
    // A tile holds what a periodic index touches as if it did not wrap, so that the leaf walks with one stride.
    let access = &access.unwrapped();
    let tensor = kernel.tensors().position(|tensor| tensor.name == access.tensor);
    let base = access.index.iter().map(|index| {
        index.terms.iter().fold(Expr::constant(index.constant), |sum, &(name, factor)| {
            sum.plus(&spans[position(kernel, name)].low.times(factor))
        })
    });
    let steps = access.index.iter().map(|index| {
        order.iter().map(|&var| index.coefficient(kernel.vars()[var].name).saturating_mul(spans[var].step)).collect()
    });
    LeafAccess {
        tensor: tensor.expect("a checked kernel declares all its tensors; this is a bug of polyshard"),
        base: base.collect(),
        steps: steps.collect(),
    }
}

/// The roles of the variables and the scalar factor, if the kernel is a sum of products of two tensors.
pub(crate) fn contraction(kernel: &Kernel) -> Result<(Vec<Role>, Value), String> {
    if !matches!(kernel.assign(), Assign::Set | Assign::Add) {
        return Err(format!("`{}` does not add up products", kernel.assign()));
    }
    let mut accesses = Vec::new();
    let mut factors = Vec::new();
    flatten(kernel.value(), &mut accesses, &mut factors)
        .ok_or_else(|| format!("`{}` is not a product", kernel.value()))?;
    let [a, b] = accesses[..] else {
        return Err(format!("`{}` is not a product of two tensors", kernel.value()));
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
    let alpha = factors.into_iter().reduce(|a, b| Value::Mul(Box::new(a), Box::new(b)));
    Ok((roles, alpha.unwrap_or(Value::Literal(Number::Int(1)))))
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

/// Kernel order, but innermost the variable that walks the most tensors with stride 1.
fn nest_order(kernel: &Kernel) -> Vec<usize> {
    let unit = |access: &Access, var| {
        let access = access.unwrapped();
        let last = access.index.last().is_some_and(|index| matches!(index.coefficient(var), -1 | 1));
        let others = access.index.iter().rev().skip(1).any(|index| index.coefficient(var) != 0);
        usize::from(last && !others)
    };
    // Walking the output counts twice: then rows are independent sums, which vectorise.
    let score = |var| {
        let operands: usize = kernel.value().accesses().iter().map(|access| unit(access, var)).sum();
        2 * unit(kernel.target(), var) + operands
    };
    let mut order: Vec<usize> = (0..kernel.vars().len()).collect();
    if let Some(best) = order.iter().copied().max_by_key(|&var| (score(kernel.vars()[var].name), var)) {
        order.retain(|&var| var != best);
        order.push(best);
    }
    order
}
