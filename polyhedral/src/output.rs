//! How the output gets from the ranks that compute it to the ranks that own it.
//!
//! Every element must have one rank that computes it, or ranks would hold partial sums. If that rank is
//! the only owner, the leaf accumulates into its shard; else into a tile that is combined into the
//! owners' shards at the end of each iteration at which the output is communicated.

use crate::classify::Need;
use crate::error::{ErrorKind, LowerError};
use crate::isl::{IslResult, Relation};
use crate::lower::Pass;
use crate::program::{Output, OutputRoute, Region};
use crate::proof::{Property, Trail};
use crate::reach::Owners;
use crate::source::Sources;
use crate::step::Step;
use polyshard_layout::{DimLayout, Sharding};

pub(crate) fn build(pass: &Pass<'_>) -> Result<Output, LowerError> {
    let kernel = &pass.state.kernel;
    let tensor = kernel.output();
    let target = kernel.target();
    let sharding = pass.state.sharding(tensor.name);
    one_writer(pass)?;
    let (asked, step) = pass.level(tensor.name);
    let mut trail = Trail::default();
    trail.test("each element is computed by one rank");
    let (_, whole) = pass.hoisted(&[target], 0, &tensor.shape);
    if in_place(pass, &whole, &sharding)? {
        trail.test("that rank is its only owner, and has it as one block: local");
        trail.proved(Property::Delivery, "each rank is the only owner of what it computes");
        pass.proofs.add_route(tensor.name, trail.proved);
        let route = OutputRoute::InPlace;
        return Ok(Output { level: 0, region: whole, route, capacity: 0, step, tests: trail.tests });
    }
    let (level, region) = pass.hoisted(&[target], asked, &tensor.shape);
    if level < asked {
        trail.test(format!(
            "the {} inner loops do not change what is written, so it is sent outside them",
            asked - level
        ));
    }
    pass.covers(&region, level, &[target], tensor)?;
    let route = route(pass, level, &region, &sharding, &mut trail)?;
    pass.proofs.add_route(tensor.name, trail.proved);
    let capacity = pass.capacity(&region, step, tensor.name)?;
    Ok(Output { level, region, route, capacity, step, tests: trail.tests })
}

/// What an exchange does by its definition, once tiles are known to stay inside the tensor.
const SENT: &str = "each element of a tile goes to all of its owners";

/// No element is computed by two ranks.
fn one_writer(pass: &Pass<'_>) -> Result<(), LowerError> {
    let kernel = &pass.state.kernel;
    let unique = pass.decide("who writes the output", || {
        // What holds of the instances without regard to summed indices holds of the instances.
        let index = &kernel.target().index;
        if pass.isl.relation(&pass.relations.needed(pass.distributed(), index))?.is_injective()? {
            return Ok(true);
        }
        pass.isl.relation(&pass.relations.exact(pass.distributed(), index))?.is_injective()
    })?;
    if unique {
        let asked = "ranks write disjoint sets of elements";
        pass.proofs.add(Property::OneWriter, Some(kernel.output().name), asked);
        return Ok(());
    }
    let distributes = |step: &Step| matches!(step, Step::Distribute { .. });
    let step = pass.steps().position(distributes).map(|position| position + 1);
    Err(pass.blame(step, ErrorKind::PartialSums { output: kernel.output().name }))
}

fn in_place(pass: &Pass<'_>, region: &Region, sharding: &Sharding) -> Result<bool, LowerError> {
    if sharding.dims().iter().any(|dim| matches!(dim, DimLayout::Cyclic { .. })) {
        return Ok(false);
    }
    let only = pass.decide("who owns the output", || {
        let owners = pass.owners(sharding)?;
        let need = Need { fixed: pass.distributed(), region, sharding, owners: &owners };
        Ok(owners.is_single_valued()? && pass.classifier.is_local(&need)?)
    })?;
    if only {
        let target = pass.state.kernel.target();
        pass.covers(region, 0, &[target], pass.state.kernel.output())?;
    }
    Ok(only)
}

fn route(
    pass: &Pass<'_>,
    level: usize,
    region: &Region,
    sharding: &Sharding,
    trail: &mut Trail,
) -> Result<OutputRoute, LowerError> {
    pass.decide("the route of the output", || {
        let fixed = pass.distributed() + level;
        let owners = pass.owners(sharding)?;
        if !owners.is_single_valued()? {
            trail.test("elements have several owners");
            return exchange(pass, fixed, region, sharding, &owners, trail);
        }
        let need = Need { fixed, region, sharding, owners: &owners };
        if pass.classifier.is_local(&need)? {
            trail.test("that rank is its only owner, and has it block-cyclic: local");
            trail.proved(Property::Delivery, "each rank is the only owner of its tile");
            return Ok(OutputRoute::Combine);
        }
        let sources = Sources { relations: pass.relations, sharding, ranges: pass.ranges };
        let needed = pass.classifier.needed(fixed, region)?;
        let to = sources.at_low(region);
        let timed = pass.classifier.timed(fixed, &to)?.restrict(&needed)?;
        if !needed.is_subset(&pass.isl.relation(&sources.owned_by(fixed, &to))?)? || !timed.is_injective()? {
            trail.test("one tile has several owners, or several tiles one");
            return exchange(pass, fixed, region, sharding, &owners, trail);
        }
        if let Some(from) = pass.classifier.inverse(fixed, &to, &[], &timed)? {
            trail.test("each tile has one owner, and each owner one tile: permute");
            trail.proved(Property::Delivery, "one rank is the only owner of a tile");
            trail.proved(Property::Matching, "the rank that a tile is sent to is the one that receives it");
            return Ok(OutputRoute::Permute { to, from });
        }
        trail.test("no closed form of who sends to whom");
        exchange(pass, fixed, region, sharding, &owners, trail)
    })
}

/// To all owners, which are no further away than their reach says.
fn exchange(
    pass: &Pass<'_>,
    fixed: usize,
    region: &Region,
    sharding: &Sharding,
    owners: &Relation,
    trail: &mut Trail,
) -> IslResult<OutputRoute> {
    let sources = Sources { relations: pass.relations, sharding, ranges: pass.ranges };
    let to = pass.classifier.needed(fixed, region)?.then(owners)?;
    let reach = pass.classifier.reach(fixed, sources.reach(region, Owners::Every), &to, trail)?;
    trail.test("exchange");
    trail.proved(Property::Delivery, SENT);
    Ok(OutputRoute::Exchange { reach })
}
