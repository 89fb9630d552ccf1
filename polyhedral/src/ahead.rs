//! Pipelined transfers: those of inputs begin some iterations before the one that reads the data, those of the output end some iterations
//! after the one that computes it.
//!
//! A tile has a buffer for each iteration in flight and one for the current iteration. The transfer for iteration `k` receives into buffer
//! `k mod (depth + 1)`, and begins in iteration `k - depth`, or before the loop; isl decides whether the previous iteration that used the
//! buffer has been computed by then. For an output, time runs backwards: iteration `k` writes buffer `k mod (depth + 1)`, begins to send it
//! at its end, and waits for the send of iteration `k - depth`; isl decides whether the send of the previous iteration that used the buffer
//! has been awaited by then. For both, isl decides whether each transfer begins once and is awaited once, in that order.

use crate::conditions::{Conditions, Form};
use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::isl::IslResult;
use crate::planned::Planned;
use crate::proofs::proof;
use crate::state::Pipeline;
use polyshard_layout::{Name, joined};
use polyshard_program::{Depth, Direction, Proof, Property};

/// The claim about transfers with separate begin and await, which the grammar of statements proves.
pub(crate) const SAME_ORDER: &str = "all ranks begin and await the same transfers in the same order, also where a rank has nothing to send or to \
                                     receive: no statement depends on the rank";

/// Makes the transfers at each pipelined loop begin ahead, and returns the proofs.
pub(crate) fn begin(context: &Context<'_>, transfers: &mut [Planned]) -> Result<Vec<Proof>, LowerError> {
    let mut proofs = Vec::new();
    for pipeline @ &Pipeline { t, depth, step } in &context.state.pipelines {
        let level = at_loop(context, pipeline)?;
        for transfer in transfers.iter_mut() {
            if transfer.level != level || transfer.route.is_local() {
                continue;
            }
            let tensor = tensor(context, transfer);
            if let Some((why, help)) = refused(transfer, depth) {
                let pattern = transfer.route.pattern(transfer.direction, &context.state.mesh).to_string();
                return Err(context.blame(Some(step), ErrorKind::NotAhead { tensor, pattern, depth, why, help }));
            }
            let extent = context.ranges.counters[level.0 - 1];
            let (what, done) = match transfer.direction {
                Direction::In => (
                    "that no tile is overwritten while in flight or read",
                    format!(
                        "no tile is overwritten while in flight or read: an iteration of {t} is computed before the \
                         next transfer into its buffer begins"
                    ),
                ),
                Direction::Out { .. } => (
                    "that no tile is overwritten while in flight",
                    format!(
                        "no tile is overwritten while in flight: each iteration of {t} is awaited, in order, before \
                         the next one that uses its buffer"
                    ),
                ),
            };
            let direction = transfer.direction;
            context.proved(what, || is_done_before(context, extent, depth))?;
            context.proved("that each transfer that begins is awaited", || {
                is_awaited_once(context, extent, depth, direction)
            })?;
            let awaited = match direction {
                Direction::In => {
                    format!("each iteration of {t} begins once and is awaited once, before it is computed")
                }
                Direction::Out { .. } => {
                    format!("each iteration of {t} begins once and is awaited once, after it was computed")
                }
            };
            proofs.extend([done, awaited].map(|claim| proof(Property::Flow, tensor, claim)));
            transfer.ahead = depth;
        }
    }
    if !proofs.is_empty() {
        proofs.push(proof(Property::Flow, None, SAME_ORDER));
    }
    Ok(proofs)
}

fn tensor(context: &Context<'_>, transfer: &Planned) -> Name {
    let mut tensors = context.kernel().tensors();
    tensors.nth(transfer.tensor.0).expect("a transfer is of a tensor; this is a bug in polyshard").name
}

/// The number of serial loops around the transfers at a loop; an error if nothing is communicated at it.
fn at_loop(context: &Context<'_>, &Pipeline { t, step, .. }: &Pipeline) -> Result<Depth, LowerError> {
    let tensors = || context.kernel().tensors();
    let at = |tensor: Name| context.state.communications.iter().find(|other| other.tensor == tensor);
    let place = context.nest().find(t).and_then(|position| position.checked_sub(context.nest().distributed));
    if let Some(place) = place.filter(|_| tensors().any(|tensor| at(tensor.name).is_some_and(|other| other.at == t))) {
        return Ok(Depth(place + 1));
    }
    let places = tensors().map(|tensor| match at(tensor.name) {
        Some(other) => format!("`{}` is communicated at `{}`", tensor.name, other.at),
        None if tensor.name == context.kernel().output().name => {
            format!("`{}` is communicated after all loops", tensor.name)
        }
        None => format!("`{}` is communicated before all loops", tensor.name),
    });
    let tensors = joined(places, ", ");
    Err(context.blame(Some(step), ErrorKind::NothingAhead { name: t, tensors }))
}

/// Why a transfer cannot be in flight for `depth` iterations, and what to do.
fn refused(transfer: &Planned, depth: usize) -> Option<(&'static str, &'static str)> {
    if transfer.route.held.is_some() {
        let why = "one leg forwards the tiles of the leg before";
        return Some((why, "shard it so that one leg fetches it, or leave `pipeline` out"));
    }
    if let Direction::Out { any_order } = transfer.direction {
        if transfer.route.shift().is_some() {
            let why = "partial sums move on to the next rank in each iteration, where the next terms are added";
            return Some((why, "pipeline a loop at which only inputs are communicated, or leave `pipeline` out"));
        }
        let why = "the communication library adds up the terms in its own order, while all ranks wait";
        return any_order
            .then_some((why, "leave `reassociate` out, so that they are added up in the order of the ranks"));
    }
    if transfer.route.shift().is_some() && depth > 1 {
        return Some((
            "a tile comes from the neighbour that held it in the previous iteration",
            "pipeline it with depth 1",
        ));
    }
    None
}

/// Whether iterations that share a buffer use it one after the other. The transfer of an input begins `depth` iterations ahead, before that
/// iteration computes: so that iteration must be after the earlier one, which reads the buffer. An output writes the buffer in its own
/// iteration, and the earlier send is awaited `depth` iterations after its own, at the end: so that must be before this iteration.
fn is_done_before(context: &Context<'_>, extent: i64, depth: usize) -> IslResult<bool> {
    let (earlier, later) = (Form::input(0), Form::output(0));
    let mut shared = pairs(extent);
    let turns = shared.witness();
    shared.below(&Form::default(), &turns);
    shared.equal(&later.subtract(&earlier), &turns.multiply(depth as i128 + 1));
    let mut in_turn = pairs(extent);
    in_turn.below(&earlier, &later.offset(-(depth as i128)));
    context.relation(&shared)?.is_subset(&context.relation(&in_turn)?)
}

/// Whether the transfer of each iteration begins once and is awaited once, not before it begins.
///
/// Time is counted in iterations. The transfer of an input for iteration `k` begins at time `k - depth`: in the iteration of that number,
/// or before the loop, where the first `depth` begin; it is awaited at time `k`. The transfer of an output of iteration `k` begins at time
/// `k` and is awaited at time `k + depth`: in the iteration of that number, or after the loop, where the last `depth` are awaited. So isl
/// decides whether the pairs of a time and the iteration whose transfer has its other end at that time are one to one, cover all
/// iterations, and are in that order.
fn is_awaited_once(context: &Context<'_>, extent: i64, depth: usize, direction: Direction) -> IslResult<bool> {
    let (time, iteration, depth) = (Form::input(0), Form::output(0), depth as i64);
    let ahead = if direction == Direction::In { depth } else { -depth };
    let at_other_end = || {
        let mut pairs = Conditions::new(1, 1);
        pairs.equal(&iteration, &time.offset(ahead));
        pairs.within(&iteration, extent.max(0));
        pairs
    };
    let (mut in_loop, mut around) = (at_other_end(), at_other_end());
    in_loop.within(&time, extent.max(0));
    match direction {
        Direction::In => around.below(&iteration, &Form::constant(depth)),
        Direction::Out { .. } => around.at_most(&Form::constant(extent - depth), &iteration),
    }
    let (mut all, mut in_order) = (Conditions::new(0, 1), Conditions::new(1, 1));
    all.within(&iteration, extent.max(0));
    match direction {
        Direction::In => in_order.below(&time, &iteration),
        Direction::Out { .. } => in_order.below(&iteration, &time),
    }
    let pairs = context.relation(&in_loop.or(around))?;
    Ok(pairs.is_single_valued()?
        && pairs.is_injective()?
        && pairs.range()?.is_equal(&context.relation(&all)?)?
        && pairs.is_subset(&context.relation(&in_order)?)?)
}

/// Pairs of iterations.
fn pairs(extent: i64) -> Conditions {
    let mut pairs = Conditions::new(1, 1);
    pairs.within(&Form::input(0), extent.max(1));
    pairs.within(&Form::output(0), extent.max(1));
    pairs
}
