//! Transfers that begin some iterations before the one that reads what they bring.
//!
//! A tile has a buffer for each iteration that is under way and one for the present one. Iteration `k` receives into buffer
//! `k mod (depth + 1)`, and begins when iteration `k - depth` runs, or before the loop; isl is asked whether the iteration that had the buffer
//! before has been computed then.

use crate::conditions::{Conditions, Form};
use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::isl::IslResult;
use crate::proofs::proof;
use crate::state::Pipeline;
use polyshard_layout::Name;
use polyshard_program::{Direction, Proof, Property, Transfer};

/// Has the transfers at each loop that is pipelined begin ahead, and returns what was proved of that.
pub(crate) fn begin(context: &Context<'_>, transfers: &mut [Transfer]) -> Result<Vec<Proof>, LowerError> {
    let mut proofs = Vec::new();
    for pipeline @ &Pipeline { t, depth, step } in &context.state.pipelines {
        let level = at_loop(context, pipeline)?;
        for transfer in transfers.iter_mut() {
            if transfer.level != level || transfer.direction != Direction::In || transfer.route.is_local() {
                continue;
            }
            let tensor = tensor(context, transfer);
            if let Some((why, help)) = refused(transfer, depth) {
                let pattern = transfer.route.pattern(transfer.direction, &context.state.mesh).to_string();
                return Err(context.blame(Some(step), ErrorKind::NotAhead { tensor, pattern, why, help }));
            }
            let extent = context.ranges.counters[level - 1];
            context
                .proved("that no tile is overwritten while it is read", || is_read_before(context, extent, depth))?;
            let claim = format!("an iteration of {t} is computed before the next one that has its buffer begins");
            proofs.push(Proof { of_route: true, ..proof(Property::Residency, tensor, claim) });
            transfer.ahead = depth;
        }
    }
    Ok(proofs)
}

fn tensor(context: &Context<'_>, transfer: &Transfer) -> Name {
    context.kernel().inputs()[transfer.tensor.0].name
}

/// The number of serial loops around what is communicated at a loop, where an input is.
fn at_loop(context: &Context<'_>, &Pipeline { t, step, .. }: &Pipeline) -> Result<usize, LowerError> {
    let inputs = context.kernel().inputs();
    let at = |tensor: Name| context.state.communications.iter().find(|other| other.tensor == tensor);
    let place = context.nest().find(t).and_then(|position| position.checked_sub(context.nest().distributed));
    if let Some(place) = place.filter(|_| inputs.iter().any(|input| at(input.name).is_some_and(|other| other.at == t)))
    {
        return Ok(place + 1);
    }
    let places = inputs.iter().map(|input| match at(input.name) {
        Some(other) => format!("`{}` is communicated at `{}`", input.name, other.at),
        None => format!("`{}` is communicated before all loops", input.name),
    });
    let inputs = places.collect::<Vec<_>>().join(", ");
    Err(context.blame(Some(step), ErrorKind::NothingAhead { name: t, inputs }))
}

/// Why a transfer cannot begin so many iterations ahead, and what to do.
fn refused(transfer: &Transfer, depth: usize) -> Option<(&'static str, &'static str)> {
    if transfer.route.held.is_some() {
        let why = "what one leg leaves in tiles is passed on by the next";
        return Some((why, "shard it so that one leg brings it, or leave `pipeline` out"));
    }
    if transfer.route.shift().is_some() && depth > 1 {
        return Some((
            "a tile comes from the neighbour that has it in the iteration before",
            "pipeline it with depth 1",
        ));
    }
    None
}

/// Whether every iteration that shares a buffer with an earlier one begins after that has been computed: in a later iteration, since an
/// iteration begins transfers before it computes.
fn is_read_before(context: &Context<'_>, extent: i64, depth: usize) -> IslResult<bool> {
    let (read, received) = (Form::input(0), Form::output(0));
    let pairs = || {
        let mut pairs = Conditions::new(1, 1);
        pairs.within(&read, extent.max(1));
        pairs.within(&received, extent.max(1));
        pairs
    };
    let mut shared = pairs();
    let turns = shared.witness();
    shared.below(&Form::default(), &turns);
    shared.equal(&received.subtract(&read), &turns.multiply(depth as i128 + 1));
    let mut in_turn = pairs();
    in_turn.below(&read, &received.offset(-(depth as i128)));
    context.relation(&shared)?.is_subset(&context.relation(&in_turn)?)
}
