//! Reasons why a schedule is illegal as a whole, although each of its steps could be applied.

use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::nest::Definition;
use polyshard_layout::joined;
use polyshard_program::{Direction, NestView, Pattern, TransferView};
use std::collections::BTreeSet;

/// Checks properties that later steps may have broken: rotated loops are inside the loops that they are
/// rotated by, and the loops of the leaf are innermost.
pub(crate) fn order(context: &Context<'_>) -> Result<(), LowerError> {
    let nest = context.nest();
    for node in &nest.nodes {
        let Definition::Rotated { rotated, by } = &node.definition else { continue };
        let first = nest.outermost(*rotated).unwrap_or(usize::MAX);
        let inside = |id| nest.loops_of(id).into_iter().any(|position| position >= first);
        if let Some(&other) = by.iter().find(|&&other| inside(other)) {
            let kind =
                ErrorKind::NotOutside { name: node.name, by: nest.node(other).name, loops: joined(nest.names(), ", ") };
            return Err(context.blame(nest.node(*rotated).steps.last().copied(), kind));
        }
    }
    let Some(tensorized) = &context.state.tensorized else { return Ok(()) };
    let names = nest.loops.iter().map(|&id| nest.node(id).name);
    let mut from_first = names.skip_while(|name| !tensorized.loops.contains(name));
    match from_first.find(|name| !tensorized.loops.contains(name)) {
        None => Ok(()),
        Some(inside) => {
            let kind = ErrorKind::NotInnermost { loops: joined(&tensorized.loops, ", "), inside };
            Err(context.blame(Some(tensorized.step), kind))
        }
    }
}

/// Checks that each transfer has the pattern that a step expects of it.
pub(crate) fn expectations(context: &Context<'_>, nest: &NestView<'_>) -> Result<(), LowerError> {
    if context.kernel().is_empty() {
        // An empty kernel transfers nothing, and is not rejected for that.
        return Ok(());
    }
    for (tensor, expected, step) in &context.state.expectations {
        let found = nest.patterns(tensor.as_str());
        let moved: Vec<_> = found.iter().filter(|pattern| **pattern != Pattern::Local).collect();
        let holds = match expected {
            Pattern::Local => moved.is_empty(),
            _ => !moved.is_empty() && moved.iter().all(|found| found.is_same(expected, nest.mesh)),
        };
        if !holds {
            let found: BTreeSet<_> = found.iter().map(Pattern::to_string).collect();
            let found = found.into_iter().collect::<Vec<_>>().join(" and ");
            let kind = ErrorKind::Unexpected { tensor: *tensor, found, expected: expected.clone() };
            return Err(context.blame(Some(*step), kind));
        }
    }
    Ok(())
}

/// Checks that as much of each transfer can be hidden as a step expects of it.
pub(crate) fn overlaps(context: &Context<'_>, nest: &NestView<'_>) -> Result<(), LowerError> {
    if context.kernel().is_empty() {
        return Ok(());
    }
    for &(tensor, expected, step) in &context.state.overlaps {
        let is_of_it = |transfer: &&TransferView<'_>| nest.tensor_name(transfer.tensor) == tensor;
        let moved = nest.transfers.iter().filter(|transfer| !transfer.route.is_local());
        let mut moved = moved.filter(is_of_it).peekable();
        if moved.peek().is_none() && nest.mesh.size() > 1 {
            return Err(context.blame(Some(step), ErrorKind::NotMoved { tensor }));
        }
        for transfer in moved.filter(|transfer| nest.overlap(transfer).iterations > 0) {
            let hidden = nest.hidden_part(transfer);
            if hidden < expected {
                let pattern = transfer.route.pattern(transfer.direction, nest.mesh).to_string();
                let (why, help) = in_sight(nest, transfer, expected);
                let kind = ErrorKind::LittleOverlap { tensor, pattern, hidden, expected, why, help };
                return Err(context.blame(Some(step), kind));
            }
        }
    }
    Ok(())
}

/// Why no more of a transfer can be hidden, and what to do to hide this share of it.
fn in_sight(nest: &NestView<'_>, transfer: &TransferView<'_>, expected: f64) -> (String, String) {
    let is_input = transfer.direction == Direction::In;
    let is_halo = is_input && transfer.route.halo().is_some() && transfer.ahead == 0;
    if transfer.interior_first {
        return (
            "all that a rank computes reads some of it, so there is no interior to compute while it is in flight"
                .into(),
            "distribute over fewer ranks, so that their blocks are larger, or leave `expect_overlap` out".into(),
        );
    }
    if is_halo && transfer.level.0 == nest.loops.len() {
        return (
            "all of the leaf waits for it".into(),
            format!("add `interior_first({})`", nest.tensor_name(transfer.tensor)),
        );
    }
    let Some(around) = transfer.level.innermost().map(|counter| nest.loops[counter.0]) else {
        let why = if is_input { "it is fetched before all loops" } else { "it is sent after all loops" };
        return (why.into(), "`communicate` it at a serial loop, and `pipeline` that".into());
    };
    let (t, iterations) = (around.name, nest.overlap(transfer).iterations);
    if around.extent <= 1 {
        let why = format!("`{t}` has one iteration, so no other one is computed while it is in flight");
        let help = match fewest(expected) {
            Some(fewest) => format!("divide into {fewest} iterations of `{t}` or more, and `pipeline` it"),
            None => format!("divide into several iterations of `{t}`, `pipeline` it, and expect less than all"),
        };
        return (why, help);
    }
    if transfer.ahead == 0 {
        let why = if is_input { "for it" } else { "until it is sent" };
        return (format!("each iteration of `{t}` waits {why}"), format!("add `pipeline({t}, 1)`"));
    }
    let which = if is_input { "first" } else { "last" };
    let why = format!("nothing is computed during the transfer of the {which} of {iterations} iterations of `{t}`");
    let less = format!("expect {:.3} or less", (1000.0 * nest.hidden_part(transfer)).floor() / 1000.0);
    match fewest(expected) {
        None => (why, less),
        Some(fewest) => (why, format!("divide into {fewest} iterations of `{t}` or more, or {less}")),
    }
}

/// The minimum number of iterations of which this share can be hidden if one of them cannot; `None` if no
/// number suffices.
fn fewest(expected: f64) -> Option<i64> {
    if expected == 1.0 {
        return None;
    }
    let mut least = (1.0 / (1.0 - expected)).floor() as i64;
    while ((least - 1) as f64) < expected * least as f64 {
        least += 1;
    }
    Some(least)
}

#[cfg(test)]
mod tests;
