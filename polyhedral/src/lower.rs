//! From schedule to program: the passes, in order.
//!
//! Each pass proposes closed forms and proves them with isl before the next one builds on them, so what
//! comes out is right by construction of the proofs, not of the proposals.

use crate::context::Context;
use crate::error::LowerError;
use crate::hints;
use crate::input;
use crate::leaf;
use crate::legal;
use crate::nest::Depth;
use crate::output;
use crate::proofs;
use crate::schedule::Schedule;
use polyshard_program::{Loop, Nest, Program, Proof, Report};

impl Schedule {
    /// Checks the schedule, derives and classifies its communication, proves it, and returns the program.
    ///
    /// # Errors
    /// The first step that cannot be applied, with its number and call site; or what makes the whole
    /// illegal, with the step that is to blame.
    pub fn lower(&self) -> Result<Program, LowerError> {
        lower(self)
    }
}

fn lower(schedule: &Schedule) -> Result<Program, LowerError> {
    let context = &Context::new(schedule)?;
    legal::order(context)?;
    let instances = proofs::every_instance_once(context)?;
    let owners = proofs::served_by_owners(context)?;
    let (mut transfers, fetched) = input::transfers(context)?;
    let (output, delivered) = output::output(context)?;
    transfers.push(output);
    let (leaf, depth) = leaf::leaf(context, &transfers)?;
    let matched = proofs::matching(context, &transfers, depth)?;
    let hints = hints::find(context, &transfers, &leaf, depth);
    let kernel = context.kernel();
    let nest = Nest {
        kernel: kernel.clone(),
        steps: schedule.steps().map(ToString::to_string).collect(),
        mesh: context.state.mesh.clone(),
        arrays: Vec::new(),
        shardings: kernel.tensors().map(|tensor| context.state.sharding(tensor.name)).collect(),
        loops: serial_loops(context, depth),
        transfers,
        leaf,
        report: Report::default(),
        hints,
    };
    let proofs = [distinct([instances, owners, fetched, delivered].concat()), matched].concat();
    let nest = nest.completed(proofs);
    legal::expectations(context, &nest)?;
    Ok(nest.into())
}

/// The loops around the leaf.
fn serial_loops(context: &Context<'_>, depth: Depth) -> Vec<Loop> {
    let nodes = context.nest().inside(Depth(0))[..depth.0].iter().map(|&id| context.nest().node(id));
    nodes.map(|node| Loop { name: node.name, extent: node.extent, steps: node.steps.clone() }).collect()
}

/// What is claimed of several regions of one tensor is said once.
fn distinct(proofs: Vec<Proof>) -> Vec<Proof> {
    proofs.into_iter().fold(Vec::new(), |mut all, proof| {
        if !all.contains(&proof) {
            all.push(proof);
        }
        all
    })
}
