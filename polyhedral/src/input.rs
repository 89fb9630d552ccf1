//! How inputs get to the ranks that read them: one transfer per region of each.
//!
//! Accesses that differ only in constants, as in a stencil, share one region, the hull of the elements that they touch.
//! Other accesses have their own regions: the hull of the rows `m` and `n` of `A[m, k] * A[n, k]` is all rows between,
//! most of which are not read. A region inside another one that is fetched is read from the tile of that one.

use crate::context::Context;
use crate::error::LowerError;
use crate::isl::IslResult;
use crate::need::Need;
use crate::nest::Depth;
use crate::planned::Planned;
use crate::proofs::Trail;
use polyshard_layout::Sharding;
use polyshard_program::{Access, Direction, OperandId, Proof, Region, StepId, Tensor, TensorId};

/// A region that some operands of the leaf read.
struct Part<'a> {
    operands: Vec<OperandId>,
    accesses: Vec<&'a Access>,
    depth: Depth,
    region: Region,
}

/// An input that is fetched.
struct Input<'a> {
    id: TensorId,
    tensor: &'a Tensor,
    sharding: Sharding,
    requested: Depth,
    step: Option<StepId>,
}

/// The transfers of all inputs, and the proofs about them.
pub(crate) fn transfers(context: &Context<'_>) -> Result<(Vec<Planned>, Vec<Proof>), LowerError> {
    let (mut transfers, mut proofs) = (Vec::new(), Vec::new());
    for (id, tensor) in (0..).map(TensorId).zip(context.kernel().inputs()) {
        let (requested, step) = context.requested(tensor.name);
        let input = Input { id, tensor, sharding: context.state.sharding(tensor.name), requested, step };
        for part in merged(context, parts(context, &input), &input)? {
            let (transfer, proved) = transfer(context, &input, part)?;
            transfers.push(transfer);
            proofs.extend(proved);
        }
    }
    Ok((transfers, proofs))
}

/// The regions of the accesses, one for all accesses with the same coefficients.
fn parts<'a>(context: &Context<'a>, input: &Input<'_>) -> Vec<Part<'a>> {
    let operands = (0..).map(OperandId).zip(context.kernel().value().accesses());
    let mut groups: Vec<(Vec<OperandId>, Vec<&Access>)> = Vec::new();
    for (operand, access) in operands.filter(|(_, access)| access.tensor == input.tensor.name) {
        match groups.iter_mut().find(|(_, others)| same_coefficients(others[0], access)) {
            Some((operands, accesses)) => {
                operands.push(operand);
                accesses.push(access);
            }
            None => groups.push((vec![operand], vec![access])),
        }
    }
    let part = |(operands, accesses): (Vec<OperandId>, Vec<&'a Access>)| {
        let (depth, region) = context.hoisted(&accesses, input.requested, &input.tensor.shape);
        Part { operands, accesses, depth, region }
    };
    groups.into_iter().map(part).collect()
}

fn same_coefficients(a: &Access, b: &Access) -> bool {
    let (a, b) = (a.unwrapped(), b.unwrapped());
    a.index.iter().zip(&b.index).all(|(a, b)| a.terms == b.terms)
}

/// The parts without those that are inside others: elements that are fetched anyway are not fetched twice, but elements
/// that a rank owns are read in place.
fn merged<'a>(context: &Context<'_>, mut parts: Vec<Part<'a>>, input: &Input<'_>) -> Result<Vec<Part<'a>>, LowerError> {
    let what = format!("whether a region of `{}` is inside of another", input.tensor.name);
    let mut number = 0;
    while number < parts.len() {
        let mut found = None;
        for other in (0..parts.len()).filter(|&other| other != number) {
            let inside = inside(context, &parts[number], &parts[other], &input.sharding);
            if context.decided(&what, inside)? {
                found = Some(other);
                break;
            }
        }
        let Some(other) = found else {
            number += 1;
            continue;
        };
        let Part { operands, accesses, .. } = parts.remove(number);
        let into = &mut parts[if other > number { other - 1 } else { other }];
        into.operands.extend(operands);
        into.operands.sort_unstable();
        into.accesses.extend(accesses);
    }
    Ok(parts)
}

/// Whether the first region is better read from the tile of the second.
fn inside(context: &Context<'_>, part: &Part<'_>, other: &Part<'_>, sharding: &Sharding) -> IslResult<bool> {
    if part.depth != other.depth {
        return Ok(false);
    }
    if part.region == other.region {
        return Ok(true);
    }
    // Regions that wrap around may hold the same elements under other indices, and a leaf stays in one block of a tile.
    if part.region.wraps() || other.region.wraps() || other.region.has_blocks() {
        return Ok(false);
    }
    let need = Need { depth: part.depth, region: &part.region, sharding, reads: &[], written: false };
    if let Some(samples) = &context.samples {
        let inside = samples.are_inside(part.depth, &part.region, &other.region);
        return Ok(inside && !context.is_local(&need)?);
    }
    let [inner, outer] = [&part.region, &other.region].map(|region| context.needed(part.depth, region));
    Ok(inner?.is_subset(&outer?)? && !context.is_local(&need)?)
}

fn transfer(context: &Context<'_>, input: &Input<'_>, part: Part<'_>) -> Result<(Planned, Vec<Proof>), LowerError> {
    let Part { operands, accesses, depth, region } = part;
    let (name, step) = (input.tensor.name, input.step);
    let mut proofs = context.covers(&region, depth, &accesses, input.tensor)?;
    let mut trail = Trail::default();
    if depth < input.requested {
        let loops = input.requested.0 - depth.0;
        trail.test(format!("the {loops} inner loops do not change what is read, so it is fetched outside them"));
    }
    // Time steps after the first read elements diagonal to those of the first, so the whole region counts.
    let is_applied = context.applications.as_ref().is_some_and(|applied| applied.tensor == name);
    let reads = if is_applied { &[][..] } else { &accesses[..] };
    let need = Need { depth, region: &region, sharding: &input.sharding, reads, written: false };
    let route = context.decided(&format!("the route of `{name}`"), context.route(&need, &mut trail))?;
    proofs.extend(trail.proofs(name));
    let mut capacity = 0;
    if !route.is_in_place() {
        capacity = context.capacity(&region, step, name)?;
        // The closed form of the forwarded region may be less tight.
        if let Some(held) = &route.held {
            capacity = capacity.max(context.capacity(held, step, name)?);
        }
    }
    let mut transfer = Planned::in_place(input.id, operands, Direction::In, region);
    (transfer.level, transfer.route, transfer.tile.capacity) = (depth, route, capacity);
    (transfer.step, transfer.tests) = (step, trail.tests);
    Ok((transfer, proofs))
}

#[cfg(test)]
mod tests;
