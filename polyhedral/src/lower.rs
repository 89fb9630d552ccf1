//! From schedule to program: the passes, in order.
//!
//! Each pass proposes closed forms and proves them with isl before the next one builds on them, so the result is correct because of
//! the proofs, not because of the proposals.

use crate::ahead;
use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::flow;
use crate::hints;
use crate::input;
use crate::interior;
use crate::leaf;
use crate::legal;
use crate::nest::Depth;
use crate::output;
use crate::planned::Planned;
use crate::proofs;
use crate::schedule::{OneKernel, Schedule, Subject};
use crate::time_steps::{self, Taken};
use polyshard_dsl::Step;
use polyshard_layout::each_once;
use polyshard_program::{
    Array, ArrayId, ArrayKind, Body, KernelId, Leaf, Loop, LoopId, LoweredKernel, Program, Proof, Report, StepId,
    TransferId, Unproved, Use,
};
use std::panic::Location;

impl<S: Subject> Schedule<S> {
    /// Checks the schedule, derives and classifies its communication, proves it, and returns the program. The statements of a block run one
    /// after the other, each by the steps that apply to it.
    ///
    /// # Errors
    /// The first step that cannot be applied, with its number and call site; or why the whole schedule is illegal, with the step that
    /// causes it. For a block also an index that has two extents, and a step that applies to no statement.
    pub fn lower(&self) -> Result<Program, LowerError> {
        S::lower(self)
    }
}

impl Subject for OneKernel {
    fn add(&mut self, step: &Step, number: StepId, at: &Location<'static>) {
        self.apply(step, number, at);
    }

    fn lower(schedule: &Schedule) -> Result<Program, LowerError> {
        let kernel = schedule.kernel()?;
        kernel.dtype().native().map_err(|error| {
            let (kernel, error) = (kernel.name(), Box::new(error.into()));
            schedule.blame(None, ErrorKind::Kernel { kernel, error })
        })?;
        let (mut body, proofs) = lower(&Context::new(schedule)?)?;
        body.complete(KernelId(0), proofs);
        Ok(Program::lowered(body))
    }
}

impl Schedule {
    /// Derives the program as [`lower`](Self::lower) does, but proves nothing: instead of asking isl how ranks have to communicate, it
    /// enumerates ranks and steps, all of them if they are few and a sample if they are many. This takes a fraction of the time, and
    /// the result can be priced, which shows whether the schedule is worth a proof. Elements may be of any type, including those that
    /// programs cannot compute in.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 64, 64], B: [f32; 64, 64]) -> C: [f32; 64, 64] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let rows = product.distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 4)]));
    /// assert!(rows.unproved()?.shardings().eq(rows.lower()?.shardings()));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As those of [`lower`](Self::lower), except failed proofs.
    pub fn unproved(&self) -> Result<Unproved, LowerError> {
        let (mut body, _) = lower(&Context::unproved(self)?)?;
        body.sketch(KernelId(0));
        Ok(Unproved::new(Program::lowered(body)))
    }
}

fn lower(context: &Context<'_>) -> Result<(Body, Vec<Proof>), LowerError> {
    context.kernel().check_points().map_err(|error| {
        let (kernel, error) = (context.kernel().name(), Box::new(error));
        context.schedule.blame(None, ErrorKind::Kernel { kernel, error })
    })?;
    legal::order(context)?;
    let instances = proofs::every_instance_once(context)?;
    let owners = proofs::served_by_owners(context)?;
    let (mut transfers, fetched) = input::transfers(context)?;
    let (output, mut delivered) = output::output(context)?;
    delivered.extend(proofs::of_records(context));
    transfers.push(output);
    let ahead = ahead::begin(context, &mut transfers)?;
    interior::begin(context, &mut transfers);
    let (leaf, depth) = leaf::leaf(context, &transfers)?;
    let hints = hints::find(context, &transfers, &leaf, depth);
    let taken = match &context.applications {
        None => None,
        Some(applications) => Some(time_steps::taken(context, applications, leaf.clone(), depth, &transfers)?),
    };
    let (leaf, loops, steps, stepped) = match taken {
        None => (leaf, serial_loops(context, depth), None, Vec::new()),
        Some(Taken { leaf, loops, steps, proofs }) => (leaf, loops, Some(steps), proofs),
    };
    let mut body = tables(context, transfers, loops, leaf);
    (body.kernels[0].time_steps, body.kernels[0].hints) = (steps, hints);
    let nest = body.nest(KernelId(0));
    let (interior, found) = (interior::proved(context, &nest)?, nest.interior().unwrap_or_default());
    let touched = flow::touched(context)?;
    body.kernels[0].leaf.interior = found;
    let idle = hints::idle_interior(context, &body.nest(KernelId(0)));
    body.kernels[0].hints.extend(idle);
    let matched = proofs::matching(context, &body.nest(KernelId(0)))?;
    // A claim about several regions of one tensor is stated once.
    let proofs = each_once([instances, touched, owners, fetched, ahead, interior, stepped, delivered].concat());
    let proofs = [proofs, matched].concat();
    let nest = body.nest(KernelId(0));
    legal::expectations(context, &nest)?;
    legal::overlaps(context, &nest)?;
    body.place();
    Ok((body, proofs))
}

/// The tables of the program of one kernel, whose arrays have the numbers of its tensors.
fn tables(context: &Context<'_>, transfers: Vec<Planned>, loops: Vec<Loop>, leaf: Leaf) -> Body {
    let kernel = context.kernel();
    let mut body = Body::new(&context.state.mesh, kernel.dtype());
    let inputs = kernel.inputs().len();
    body.arrays.extend(kernel.tensors().enumerate().map(|(number, tensor)| Array {
        name: tensor.name,
        sharding: context.state.sharding(tensor.name),
        kind: if number == inputs { ArrayKind::Output } else { ArrayKind::Input },
    }));
    let uses = transfers.iter().enumerate().map(|(number, planned)| Use {
        transfer: TransferId(number),
        tensor: planned.tensor,
        operands: planned.operands.clone(),
    });
    body.kernels.push(LoweredKernel {
        kernel: kernel.clone(),
        steps: context.schedule.steps().map(ToString::to_string).collect(),
        copies: context.nest().axes_of_copies().into(),
        arrays: (0..=inputs).map(ArrayId).collect(),
        loops: (0..loops.len()).map(LoopId).collect(),
        uses: uses.collect(),
        leaf,
        time_steps: None,
        continues: None,
        report: Report::default(),
        hints: Vec::new(),
    });
    (body.transfers, body.loops) = (transfers.into_iter().map(|planned| planned.transfer).collect(), loops);
    body
}

/// The loops around the leaf.
fn serial_loops(context: &Context<'_>, depth: Depth) -> Vec<Loop> {
    let nodes = context.nest().inside(Depth(0))[..depth.0].iter().map(|&id| context.nest().node(id));
    nodes.map(|node| Loop { name: node.name, extent: node.extent, steps: node.steps.clone() }).collect()
}
