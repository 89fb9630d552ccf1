//! What makes a schedule illegal as a whole, though each of its steps could be applied.

use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::nest::Definition;
use polyshard_program::{Nest, Pattern, list};
use std::collections::BTreeSet;

/// What later steps may have broken: rotations stay inside what they rotate by, leaf loops innermost.
pub(crate) fn order(context: &Context<'_>) -> Result<(), LowerError> {
    let nest = context.nest();
    for node in &nest.nodes {
        let Definition::Rotated { rotated, by } = &node.definition else { continue };
        let first = nest.outermost(*rotated).unwrap_or(usize::MAX);
        let inside = |id| nest.loops_of(id).into_iter().any(|position| position >= first);
        if let Some(&other) = by.iter().find(|&&other| inside(other)) {
            let kind = ErrorKind::NotOutside { name: node.name, by: nest.node(other).name, loops: list(&nest.names()) };
            return Err(context.blame(nest.node(*rotated).steps.last().copied(), kind));
        }
    }
    let Some(tensorized) = &context.state.tensorized else { return Ok(()) };
    let names = nest.loops.iter().map(|&id| nest.node(id).name);
    let mut from_first = names.skip_while(|name| !tensorized.loops.contains(name));
    match from_first.find(|name| !tensorized.loops.contains(name)) {
        None => Ok(()),
        Some(inside) => {
            let kind = ErrorKind::NotInnermost { loops: list(&tensorized.loops), inside };
            Err(context.blame(Some(tensorized.step), kind))
        }
    }
}

/// Each transfer has the pattern that a step expects of it.
pub(crate) fn expectations(context: &Context<'_>, nest: &Nest) -> Result<(), LowerError> {
    if context.kernel().is_empty() {
        // Nothing is transferred where nothing runs, and no size is refused for that.
        return Ok(());
    }
    for (tensor, expected, step) in &context.state.expectations {
        let found = nest.patterns(tensor.as_str());
        let moved: Vec<_> = found.iter().filter(|pattern| **pattern != Pattern::Local).collect();
        let holds = match expected {
            Pattern::Local => moved.is_empty(),
            _ => !moved.is_empty() && moved.iter().all(|found| found.is_same(expected, &nest.mesh)),
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

#[cfg(test)]
mod tests;
