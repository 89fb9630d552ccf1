//! How the output gets from the ranks that compute it to the ranks that own it.
//!
//! Every element must have one rank that computes it, or ranks would hold partial sums. If that rank is
//! the only owner, the leaf accumulates into its shard; else into a tile that is combined into the
//! owners' shards at the end of each iteration at which the output is communicated.

use crate::classify::Need;
use crate::error::{ErrorKind, LowerError};
use crate::lower::Pass;
use crate::program::{Output, OutputRoute, Region};
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
    let mut tests = vec!["each element is computed by one rank".to_owned()];
    let (_, whole) = pass.hoisted(&[target], 0, &tensor.shape);
    if in_place(pass, &whole, &sharding)? {
        tests.push("that rank is its only owner, and has it as one block: local".into());
        let route = OutputRoute::InPlace;
        return Ok(Output { level: 0, region: whole, route, capacity: 0, step, tests });
    }
    let (level, region) = pass.hoisted(&[target], asked, &tensor.shape);
    if level < asked {
        tests.push(format!(
            "the {} inner loops do not change what is written, so it is sent outside them",
            asked - level
        ));
    }
    pass.covers(&region, level, &[target], &tensor.shape)?;
    let route = route(pass, level, &region, &sharding, &mut tests)?;
    let capacity = pass.capacity(&region, step, tensor.name)?;
    Ok(Output { level, region, route, capacity, step, tests })
}

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
        pass.covers(region, 0, &[target], &pass.state.kernel.output().shape)?;
    }
    Ok(only)
}

fn route(
    pass: &Pass<'_>,
    level: usize,
    region: &Region,
    sharding: &Sharding,
    tests: &mut Vec<String>,
) -> Result<OutputRoute, LowerError> {
    pass.decide("the route of the output", || {
        let fixed = pass.distributed() + level;
        let owners = pass.owners(sharding)?;
        if !owners.is_single_valued()? {
            tests.push("elements have several owners: exchange".into());
            return Ok(OutputRoute::Exchange);
        }
        let need = Need { fixed, region, sharding, owners: &owners };
        if pass.classifier.is_local(&need)? {
            tests.push("that rank is its only owner, and has it in block-cyclic form: local".into());
            return Ok(OutputRoute::Combine);
        }
        let sources = Sources { relations: pass.relations, sharding, ranges: pass.ranges };
        let needed = pass.classifier.needed(fixed, region)?;
        let to = sources.at_low(region);
        let timed = pass.classifier.timed(fixed, &to)?.restrict(&needed)?;
        if !needed.is_subset(&pass.isl.relation(&sources.owned_by(fixed, &to))?)? || !timed.is_injective()? {
            tests.push("one tile has several owners, or several tiles one: exchange".into());
            return Ok(OutputRoute::Exchange);
        }
        if let Some(from) = pass.classifier.inverse(fixed, &to, &timed)? {
            tests.push("each tile has one owner, and each owner one tile: permute".into());
            return Ok(OutputRoute::Permute { to, from });
        }
        tests.push("no closed form of who sends to whom: exchange".into());
        Ok(OutputRoute::Exchange)
    })
}
