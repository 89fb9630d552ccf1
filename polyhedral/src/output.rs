//! How the output gets from the ranks that compute it to the ranks that own it: the transpose of an input.
//!
//! With time reversed, a tile that is sent is a tile that is fetched. So an output is classified like an input of the
//! same region and sharding, and each route is replaced by its transpose: a broadcast by a reduction, an all-gather by a
//! reduce-scatter, a shift by a shift of sums. Every statement instance adds to one tile, so it only remains to show
//! that each tile reaches each owner of its elements once. If a rank is the only owner of all that it computes, the leaf
//! accumulates into its shard; otherwise into a tile that starts from the identity of the kernel's operation, and is
//! combined into the shards at the end of each iteration at which the output is communicated. So the previous contents
//! of the output count once. Along axes of partial sums, a rank's owner is the one at its own coordinate. The same holds
//! along axes whose ranks all compute the same, each its own copy.

use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::isl::IslResult;
use crate::need::{Need, WhichOwners};
use crate::nest::Depth;
use crate::planned::Planned;
use crate::proofs::Trail;
use crate::relation::owners_of_one_term;
use polyshard_layout::{AxisSource, DimLayout, Sharding};
use polyshard_program::{
    AxisId, Direction, Leg, Owners, Proof, Property, Region, Route, SENT, Shift, Symbol, TensorId,
};

/// The transfer of the output, and the proofs about it.
pub(crate) fn output(context: &Context<'_>) -> Result<(Planned, Vec<Proof>), LowerError> {
    let (tensor, target) = (context.kernel().output(), context.kernel().target());
    let sharding = &of_each_copy(context, context.state.sharding(tensor.name))?;
    let whole = context.region(&[target], Depth(0), &tensor.shape);
    if is_in_place(context, &whole, sharding)? {
        return in_place(context, whole, sharding);
    }
    let (requested, step) = context.requested(tensor.name);
    let (depth, region) = context.hoisted(&[target], requested, &tensor.shape);
    let mut trail = Trail::default();
    if depth < requested {
        let loops = requested.0 - depth.0;
        trail.test(format!("the {loops} inner loops do not change what is written, so it is sent outside them"));
    }
    let mut proofs = context.covers(&region, depth, &[target], tensor)?;
    let need = Need { depth, region: &region, sharding, reads: &[], written: true };
    let route = context.decided("the route of the output", transposed(context, &need, &mut trail))?;
    let any_order = context.state.reassociated.is_some() && is_collective(&route);
    if any_order {
        trail.test("sums are reassociated: the communication library chooses the order of the terms");
    }
    proofs.extend(trail.proofs(tensor.name));
    let capacity = context.capacity(&region, step, tensor.name)?;
    let mut output = in_place_of(context, region);
    (output.level, output.route, output.tile.capacity) = (depth, route, capacity);
    (output.direction, output.step, output.tests) = (Direction::Out { any_order }, step, trail.tests);
    Ok((output, proofs))
}

/// The sharding of one copy's output, if all ranks along some axes compute the same: a rank has its copy as it would
/// have its term of a sum.
fn of_each_copy(context: &Context<'_>, sharding: Sharding) -> Result<Sharding, LowerError> {
    let axes = context.nest().axes_of_copies();
    let replicated = replicated(&sharding);
    let apart = axes.iter().copied().find(|axis| !replicated.contains(axis));
    let Some(axis) = apart else { return Ok(sharding.opened_along(&axes)) };
    let tensor = context.kernel().output().name;
    let step = context.state.shards.iter().find(|shard| shard.tensor == tensor).map(|shard| shard.step);
    let axis = sharding.mesh().as_slice()[axis].name;
    Err(context.blame(step, ErrorKind::CopiesApart { tensor, axis, sharding: sharding.to_string() }))
}

/// The transfer of an output that the leaf accumulates in place.
fn in_place(context: &Context<'_>, region: Region, sharding: &Sharding) -> Result<(Planned, Vec<Proof>), LowerError> {
    let tensor = context.kernel().output();
    let mut proofs = context.covers(&region, Depth(0), &[context.kernel().target()], tensor)?;
    let term = if sharding.partial().is_empty() { "" } else { "its term of " };
    let mut trail = Trail::default();
    trail.test(format!("each rank owns exactly {term}what it computes, as one block: local"));
    trail.proved(Property::Delivery, format!("each rank is the only owner of {term}what it computes"));
    proofs.extend(trail.proofs(tensor.name));
    let (_, step) = context.requested(tensor.name);
    let mut output = in_place_of(context, region);
    (output.step, output.tests) = (step, trail.tests);
    Ok((output, proofs))
}

/// The transfer of an output that stays in place.
fn in_place_of(context: &Context<'_>, region: Region) -> Planned {
    let tensor = TensorId(context.kernel().inputs().len());
    let mut output = Planned::in_place(tensor, Vec::new(), Direction::Out { any_order: false }, region);
    output.op = context.kernel().assign();
    output
}

/// The route of an input of this region and sharding, run backwards.
fn transposed(context: &Context<'_>, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
    let mut found = Trail::default();
    let route = context.route(need, &mut found)?;
    trail.test("an input of this region and sharding would be fetched like this:");
    trail.tests.extend(found.tests.into_iter().map(|test| format!("  {test}")));
    // Of the claims about an input, those about matching senders and receivers hold for an output too.
    trail.proved.extend(found.proved.into_iter().filter(|(property, _)| *property == Property::Matching));
    Transpose { context, replicated: replicated(need.sharding) }.route(route, need, trail)
}

/// Whether a collective adds the terms of the sums at the end.
fn is_collective(route: &Route) -> bool {
    route.algorithm().is_some()
}

/// The axes along which all coordinates own the same elements.
fn replicated(sharding: &Sharding) -> Vec<usize> {
    let extents = sharding.mesh().extents();
    let free = sharding.sources().iter().filter(|(axis, source)| {
        matches!(source, AxisSource::Reader) && extents[*axis] > 1 && !sharding.partial().contains(axis)
    });
    let mut axes: Vec<usize> = free.map(|(axis, _)| *axis).collect();
    axes.sort_unstable();
    axes
}

/// Whether an axis has more coordinates than parts, so that some of them own the same elements.
fn has_other_copies(sharding: &Sharding) -> bool {
    let extents = sharding.mesh().extents();
    sharding.sources().iter().any(|(axis, source)| source.repeats(extents[*axis]))
}

/// Whether each rank is the only owner of the elements that it computes, in one block.
fn is_in_place(context: &Context<'_>, region: &Region, sharding: &Sharding) -> Result<bool, LowerError> {
    if sharding.dims().iter().any(DimLayout::is_cyclic) {
        return Ok(false);
    }
    let need = Need { depth: Depth(0), region, sharding, reads: &[], written: true };
    let is_only = || {
        let owned_once =
            replicated(sharding).is_empty() && !has_other_copies(sharding) || sharding.shape().contains(&0);
        let is_proved = || match &context.samples {
            Some(_) => Ok(true),
            None => context.relation(&owners_of_one_term(sharding))?.is_single_valued(),
        };
        Ok(owned_once && is_proved()? && context.is_local(&need)?)
    };
    context.decided("who owns the output", is_only())
}

/// Routes of inputs, run backwards.
struct Transpose<'a> {
    context: &'a Context<'a>,
    replicated: Vec<usize>,
}

impl Transpose<'_> {
    /// The route by which an input of this region would be fetched, as that of an output.
    fn route(&self, route: Route, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
        if let Some(shift) = route.shift() {
            return self.shift(shift, route, need, trail);
        }
        if has_other_copies(need.sharding) {
            return self.exchange("elements have several owners along a part of an axis: exchange", need, trail);
        }
        if !self.replicated.is_empty() {
            return self.to_all_owners(&route, need, trail);
        }
        let [leg] = &route.legs[..] else { return self.exchange("run backwards: combining exchange", need, trail) };
        let (test, claim): (String, String) = match leg {
            Leg::InPlace | Leg::Copy => {
                trail.test("each rank is the only owner of what it computes: local");
                trail.proved(Property::Delivery, "each rank is the only owner of its tile");
                return Ok(Leg::Copy.into());
            }
            Leg::Collective { axes, owners: Owners::One(_), .. } => {
                let names = self.context.names(axes);
                let claim =
                    format!("one of the ranks along {names} is the only owner of the tile that all of them have");
                (format!("run backwards, a broadcast is a reduction: reduce({names})"), claim)
            }
            Leg::Collective { axes, owners: Owners::All | Owners::Parts, .. } => {
                let names = self.context.names(axes);
                let claim = format!(
                    "each element of the tile that all ranks along {names} hold is owned by one of these ranks"
                );
                (format!("run backwards, an all-gather is a reduce-scatter: reduce_scatter({names})"), claim)
            }
            Leg::Permute { .. } => ("run backwards: permute".into(), "one rank is the only owner of a tile".into()),
            Leg::Halo { .. } => ("run backwards, neighbours get their rims: halo".into(), SENT.into()),
            Leg::Exchange { .. } | Leg::Shift(_) => ("run backwards: combining exchange".into(), SENT.into()),
        };
        trail.test(test);
        trail.proved(Property::Delivery, claim);
        Ok(route)
    }

    /// Partial sums that shift between neighbours, and are sent to their owners in the last iteration by the transpose
    /// of the first legs of `route`.
    fn shift(&self, shift: Shift, mut route: Route, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
        let Shift { axis, by, counter } = shift;
        let name = self.context.names(&[axis.0]);
        trail.test(format!("run backwards, partial sums move on: shift({name}, {by})"));
        let claim = format!(
            "in each iteration but the first, a rank continues with the tile that the neighbour at {name} + {by} had \
             in the previous one, so each term is in one tile"
        );
        trail.proved(Property::Delivery, claim);
        let last = need.needs_owner(counter, &self.context.ranges);
        let need = Need { depth: Depth(counter.0), region: &last, ..*need };
        route.legs.pop();
        Ok(self.route(route, &need, trail)?.then_shift(shift))
    }

    /// Elements have several owners: an all-reduce if the owners are the ranks that compute them.
    fn to_all_owners(&self, route: &Route, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
        let axes = &self.replicated;
        let names = self.context.names(axes);
        let same = axes.iter().all(|&axis| !need.region.mentions(Symbol::Coordinate(AxisId(axis))));
        if route.is_local() && same && self.owned_along(axes, need)? {
            trail
                .test(format!("its owners are the ranks along {names}, and all compute the same: all_reduce({names})"));
            let claim = format!("the owners of the tile that all ranks along {names} have are these ranks");
            trail.proved(Property::Delivery, claim);
            return Ok(Leg::collective(axes.clone(), Owners::All).into());
        }
        let test = format!("all ranks along {names} own it, but not alone or not as one tile: exchange");
        self.exchange(&test, need, trail)
    }

    /// Whether all owners of the elements that a rank computes differ from it along `axes` alone.
    fn owned_along(&self, axes: &[usize], need: &Need<'_>) -> IslResult<bool> {
        let is_aligned = self.context.aligned(need, WhichOwners::Every);
        for axis in (0..need.sharding.mesh().ndim()).filter(|axis| !axes.contains(axis)) {
            if !is_aligned(axis)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An exchange with all of several owners.
    fn exchange(&self, test: &str, need: &Need<'_>, trail: &mut Trail) -> IslResult<Route> {
        trail.test(test);
        let reach = self.context.reach(need, WhichOwners::Every, trail)?;
        trail.proved(Property::Delivery, SENT);
        Ok(Leg::exchange(reach).into())
    }
}

#[cfg(test)]
mod tests;
