//! What makes a redistribution impossible, said before anything moves.

use crate::array::same_owners;
use crate::layout::Sharding;
use crate::{DistArray, Error, Result, World};
use polyshard_planner::Plan;

/// Checks that one array can have both shardings in this world, without communication.
pub(super) fn shardings(world: &World, source: &Sharding, target: &Sharding) -> Result<()> {
    world.check_mesh(source.mesh())?;
    if source.shape() != target.shape() {
        return Err(Error::Usage(format!(
            "an array of shape {:?} cannot be redistributed to a sharding of shape {:?}; a redistribution keeps the shape",
            source.shape(),
            target.shape()
        )));
    }
    if source.mesh() != target.mesh() {
        return Err(Error::Usage(format!(
            "an array on the mesh ({}) cannot be redistributed to the mesh ({}); write both shardings over one mesh",
            source.mesh(),
            target.mesh()
        )));
    }
    Ok(())
}

/// Checks that no sums are open on either side, which a plan does not close.
pub(super) fn no_sums(source: &Sharding, target: &Sharding) -> Result<()> {
    match [source, target].into_iter().find(|sharding| !sharding.partial().is_empty()) {
        None => Ok(()),
        Some(open) => Err(Error::Usage(format!(
            "a plan moves elements, but an array sharded {open} holds terms of sums; use `Redistribution::new`, which \
             closes them"
        ))),
    }
}

/// Checks that all ranks mean the same redistribution; collective.
pub(super) fn agree(
    world: &World,
    number: u64,
    source: &Sharding,
    target: &Sharding,
    plan: Option<&Plan>,
) -> Result<()> {
    let steps = plan.iter().flat_map(|plan| plan.steps());
    let steps: Vec<_> = steps.map(|step| format!("{} from {} to {}", step.op(), step.from(), step.to())).collect();
    world.agree(&format!(
        "a redistribution from {source} to {target}\na redistribution of shape {:?} over ({})\na redistribution {}\n\
         redistribution number {number}\na redistribution from {source:?} to {target:?}",
        source.shape(),
        source.mesh(),
        plan.map_or_else(|| "by direct exchange".into(), |_| format!("in the steps {}", steps.join(", ")))
    ))
}

/// Checks that an array is laid out by `wanted`, which a redistribution `takes` or `makes`.
pub(super) fn array<T>(array: &DistArray<T>, wanted: &Sharding, what: &str, cure: &str) -> Result<()> {
    let held = array.sharding();
    if held.shape() == wanted.shape() && held.mesh() == wanted.mesh() && same_owners(held, wanted) {
        return Ok(());
    }
    let [held, wanted] = [held, wanted]
        .map(|sharding| format!("of shape {:?} over ({}), sharded {sharding}", sharding.shape(), sharding.mesh()));
    Err(Error::Usage(format!("an array {held}, is given to a redistribution that {what} arrays {wanted}; {cure}")))
}
