//! How inputs get to the ranks that read them: a transfer per region of each.
//!
//! Accesses that differ in constants alone, as those of a stencil do, touch one region, the hull of what each of them
//! touches. Others are regions of their own: the hull of the rows `m` and `n` of `A[m, k] * A[n, k]` is all rows
//! between, of which most are not read. What lies inside of another region that moves is read from its tile.

use crate::classify::Need;
use crate::error::LowerError;
use crate::pass::Pass;
use crate::proofs::Trail;
use polyshard_layout::{Name, Sharding};
use polyshard_program::{Access, Region, Route, Tensor, Transfer};

/// A region that some operands of the leaf read.
struct Part<'a> {
    operands: Vec<usize>,
    accesses: Vec<&'a Access>,
    level: usize,
    region: Region,
}

pub(crate) fn build(pass: &Pass<'_>) -> Result<Vec<Transfer>, LowerError> {
    let mut transfers = Vec::new();
    for (position, tensor) in pass.state.kernel.inputs().iter().enumerate() {
        let (asked, step) = pass.level(tensor.name);
        let sharding = pass.state.sharding(tensor.name);
        for part in merged(pass, parts(pass, tensor, asked), tensor.name, &sharding)? {
            transfers.push(transfer(pass, (position, tensor), part, &sharding, (asked, step))?);
        }
    }
    Ok(transfers)
}

/// The regions of the accesses, one for those with the same coefficients.
fn parts<'a>(pass: &Pass<'a>, tensor: &Tensor, asked: usize) -> Vec<Part<'a>> {
    let operands = pass.state.kernel.value().accesses().into_iter().enumerate();
    let mut groups: Vec<(Vec<usize>, Vec<&Access>)> = Vec::new();
    for (operand, access) in operands.filter(|(_, access)| access.tensor == tensor.name) {
        match groups.iter_mut().find(|(_, others)| same_coefficients(others[0], access)) {
            Some((operands, accesses)) => {
                operands.push(operand);
                accesses.push(access);
            }
            None => groups.push((vec![operand], vec![access])),
        }
    }
    let part = |(operands, accesses): (Vec<usize>, Vec<&'a Access>)| {
        let (level, region) = pass.hoisted(&accesses, asked, &tensor.shape);
        Part { operands, accesses, level, region }
    };
    groups.into_iter().map(part).collect()
}

fn same_coefficients(a: &Access, b: &Access) -> bool {
    let (a, b) = (a.unwrapped(), b.unwrapped());
    a.index.iter().zip(&b.index).all(|(a, b)| a.terms == b.terms)
}

/// The parts without those that are inside of others: what moves anyway is not fetched twice, but what a rank owns is
/// read where it lies.
fn merged<'a>(
    pass: &Pass<'_>,
    mut parts: Vec<Part<'a>>,
    tensor: Name,
    sharding: &Sharding,
) -> Result<Vec<Part<'a>>, LowerError> {
    let mut number = 0;
    while number < parts.len() {
        let found = (0..parts.len()).filter(|&other| other != number).map(|other| {
            let what = format!("whether a region of `{tensor}` is inside of another");
            let inside = pass.decide(&what, || inside(pass, &parts[number], &parts[other], sharding))?;
            Ok(inside.then_some(other))
        });
        let found = found.collect::<Result<Vec<_>, LowerError>>()?.into_iter().flatten().next();
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
fn inside(pass: &Pass<'_>, part: &Part<'_>, other: &Part<'_>, sharding: &Sharding) -> crate::isl::IslResult<bool> {
    if part.level != other.level {
        return Ok(false);
    }
    if part.region == other.region {
        return Ok(true);
    }
    // Regions that go round may hold the same elements under other indices, and a leaf stays in one block of a tile.
    if part.region.wraps() || other.region.wraps() || other.region.has_blocks() {
        return Ok(false);
    }
    let fixed = pass.distributed() + part.level;
    let owners = pass.owners(sharding)?;
    let need = Need { fixed, region: &part.region, sharding, owners: &owners, written: false };
    let [inner, outer] = [&part.region, &other.region].map(|region| pass.classifier.needed(fixed, region));
    Ok(inner?.is_subset(&outer?)? && !pass.classifier.is_local(&need)?)
}

fn transfer(
    pass: &Pass<'_>,
    (position, tensor): (usize, &Tensor),
    part: Part<'_>,
    sharding: &Sharding,
    (asked, step): (usize, Option<usize>),
) -> Result<Transfer, LowerError> {
    let Part { operands, accesses, level, region } = part;
    pass.covers(&region, level, &accesses, tensor)?;
    let mut trail = Trail::default();
    if level < asked {
        let loops = asked - level;
        trail.test(format!("the {loops} inner loops do not change what is read, so it is fetched outside them"));
    }
    let route = pass.decide(&format!("the route of `{}`", tensor.name), || {
        let owners = pass.owners(sharding)?;
        let need =
            Need { fixed: pass.distributed() + level, region: &region, sharding, owners: &owners, written: false };
        pass.classifier.route(&need, &mut trail)
    })?;
    pass.proofs.add_route(tensor.name, trail.proved);
    let buffers = route.buffers();
    let mut capacity = 0;
    if buffers > 0 {
        capacity = pass.capacity(&region, step, tensor.name)?;
        // The closed forms of what is passed on need not be as tight.
        if let Some(held) = held(&route) {
            capacity = capacity.max(pass.capacity(held, step, tensor.name)?);
        }
    }
    Ok(Transfer { tensor: position, operands, level, region, route, capacity, buffers, step, tests: trail.tests })
}

/// What ranks pass on, if they do.
fn held(route: &Route) -> Option<&Region> {
    match route {
        Route::Sequence { held, .. } => Some(held),
        Route::Shift { first, .. } => held(first),
        _ => None,
    }
}
