//! Which elements of its tensors a kernel touches, if not all. With this, programs of several kernels check that no element is read that
//! no kernel has written.
//!
//! The boxes are closed forms of the kernel's indices ([`Footprint`](polyshard_program::Footprint)). isl decides whether nothing outside
//! of them is read, and whether all of them is written.

use crate::conditions::{Conditions, Form};
use crate::context::Context;
use crate::error::LowerError;
use crate::isl::IslResult;
use crate::proofs::proof;
use polyshard_layout::{each_once, joined};
use polyshard_program::{Access, Footprint, Kernel, Proof, Property};

/// Proves the boxes of tensors that are touched only in part.
pub(crate) fn touched(context: &Context<'_>) -> Result<Vec<Proof>, LowerError> {
    let kernel = context.kernel();
    let mut proofs = Vec::new();
    if kernel.is_empty() {
        return Ok(proofs);
    }
    for tensor in kernel.inputs() {
        let reads = kernel.accesses_of(tensor.name).into_iter().map(|access| (access, kernel.reads_at_most(access)));
        let reads: Vec<_> = reads.collect();
        if reads.is_empty() || reads.iter().any(|(_, read)| read.is_whole(&tensor.shape)) {
            continue;
        }
        for (access, read) in &reads {
            let holds = || is_inside(context, &elements(kernel, access, &tensor.shape), &inside(read));
            context.proved(&format!("that no more is read of `{}` than {read}", tensor.name), holds)?;
        }
        let shown = each_once(reads.iter().map(|(_, read)| read.to_string()));
        proofs.push(proof(Property::Flow, tensor.name, format!("no more of it is read than {}", joined(&shown, ", "))));
    }
    let output = kernel.output();
    let written = kernel.writes_at_least();
    if let Some(written) = written.filter(|written| !written.is_whole(&output.shape)) {
        let holds = || is_inside(context, &inside(&written), &elements(kernel, kernel.target(), &output.shape));
        context.proved(&format!("that all of {written} is written of `{}`", output.name), holds)?;
        proofs.push(proof(Property::Flow, output.name, format!("all of {written} is written")));
    }
    Ok(proofs)
}

fn is_inside(context: &Context<'_>, inner: &Conditions, outer: &Conditions) -> IslResult<bool> {
    context.relation(inner)?.is_subset(&context.relation(outer)?)
}

/// The elements of a tensor of this shape that an access names in any instance; variables that the access lacks do not matter.
fn elements(kernel: &Kernel, access: &Access, shape: &[usize]) -> Conditions {
    let mut conditions = Conditions::new(0, access.index.len());
    let mut values = Vec::new();
    for var in kernel.vars() {
        if access.mentions(var.name) {
            let value = conditions.witness();
            conditions.within(&value, var.extent as i64);
            values.push((var.name, value));
        }
    }
    for (dim, (index, &extent)) in access.index.iter().zip(shape).enumerate() {
        let moved = values.iter().map(|(name, value)| value.multiply(index.coefficient(*name)));
        let sum = moved.fold(Form::constant(index.constant), |sum, term| sum.add(&term));
        let sum = match index.period() {
            Some(period) => conditions.remainder(&sum, period),
            None => sum,
        };
        conditions.equal(&Form::output(dim), &sum);
        // Indices outside of the tensor are not elements.
        conditions.within(&Form::output(dim), extent as i64);
    }
    conditions
}

/// The elements of a box.
fn inside(footprint: &Footprint) -> Conditions {
    let mut conditions = Conditions::new(0, footprint.dims.len());
    for (dim, along) in footprint.dims.iter().enumerate() {
        let nth = conditions.witness();
        conditions.within(&nth, along.count);
        conditions.equal(&Form::output(dim), &nth.multiply(along.step).offset(along.first));
    }
    conditions
}
