//! Proofs about a whole schedule, and how passes record their proofs.

use crate::context::Context;
use crate::error::LowerError;
use crate::isl::IslResult;
use crate::source::Sources;
use polyshard_layout::Name;
use polyshard_program::{NestView, Proof, Property};

/// A proof that holds whatever the routes are.
pub(crate) fn proof(property: Property, tensor: impl Into<Option<Name>>, claim: impl Into<String>) -> Proof {
    Proof { property, tensor: tensor.into(), claim: claim.into(), of_route: false }
}

/// How a route was found: the tests made, for readers, and the claims that they proved.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// A line for each test made, whatever its result.
    pub tests: Vec<String>,
    /// The claims that the tests proved about the chosen route.
    pub proved: Vec<(Property, String)>,
}

impl Trail {
    pub(crate) fn test(&mut self, line: impl Into<String>) {
        self.tests.push(line.into());
    }

    pub(crate) fn proved(&mut self, property: Property, claim: impl Into<String>) {
        self.proved.push((property, claim.into()));
    }

    /// The proofs about the route of a tensor.
    pub(crate) fn proofs(&self, tensor: Name) -> impl Iterator<Item = Proof> {
        let proved = self.proved.iter().cloned();
        proved.map(move |(property, claim)| Proof { property, tensor: Some(tensor), claim, of_route: true })
    }
}

/// Proves that the schedule is a bijection between iterations of all loops and statement instances: each step is a
/// bijection between the loops that it makes and those that it replaces. With copies, this holds for each copy.
pub(crate) fn every_instance_once(context: &Context<'_>) -> Result<Vec<Proof>, LowerError> {
    let bijective = || -> IslResult<bool> {
        if !context.nest().is_forest() {
            return Ok(false);
        }
        for (step, all) in context.relations.steps() {
            let [step, all] = [context.relation(&step)?, context.relation(&all)?];
            if !step.is_single_valued()? || !step.is_injective()? || !step.range()?.is_equal(&all)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    context.proved("that every statement instance runs once", bijective)?;
    let claim =
        "the relation from the loops of each step to those that they replace is single-valued, injective and onto";
    let claim = match &context.nest().axes_of_copies()[..] {
        [] => claim.to_owned(),
        axes => format!("at each coordinate along {}, {claim}", context.names(axes)),
    };
    Ok(vec![proof(Property::EveryInstanceOnce, None, claim)])
}

/// Proves that the rank that serves an element, as a function of the element and the reader, owns it.
pub(crate) fn served_by_owners(context: &Context<'_>) -> Result<Vec<Proof>, LowerError> {
    let mut proofs = Vec::new();
    for shard in &context.state.shards {
        let (solved, owners) = Sources::solved(&shard.sharding);
        let subset = || context.relation(&solved)?.is_subset(&context.relation(&owners)?);
        context.proved("that elements are read from their owners", subset)?;
        if shard.tensor != context.kernel().output().name {
            proofs.push(proof(Property::Residency, shard.tensor, "the rank that an element is read from owns it"));
        }
    }
    Ok(proofs)
}

/// What has been proved about the running reduction of a kernel.
pub(crate) fn of_records(context: &Context<'_>) -> Option<Proof> {
    let running = context.kernel().assign().running()?;
    Some(proof(Property::Delivery, context.kernel().output().name, running.meaning()))
}

/// Proves that ranks that communicate with each other make the same calls.
pub(crate) fn matching(context: &Context<'_>, nest: &NestView<'_>) -> Result<Vec<Proof>, LowerError> {
    nest.matches().map_err(|why| context.not_proved(&format!("that ranks make the same calls, since it {why},")))
}
