//! Checks of a redistribution's arguments, before anything moves.

use crate::layout::Sharding;
use crate::{DistArray, RedistributionError, Result, World};
use polyshard_program::{Direction, Route, common_mesh};

/// Checks that one array can have both shardings in this world, without communication.
pub(super) fn shardings(world: &World, source: &Sharding, target: &Sharding) -> Result<()> {
    world.check_mesh(source.mesh())?;
    if source.shape() != target.shape() {
        let [source_shape, target_shape] = [source, target].map(|sharding| sharding.shape().to_vec());
        return Err(RedistributionError::Shape { source_shape, target_shape }.into());
    }
    world.check_mesh(target.mesh())?;
    source.closed_axes(target).map_err(RedistributionError::from)?;
    Ok(())
}

/// Checks that this rank holds the elements that it is to keep, and that no sums are open.
pub(super) fn holds(world: &World, source: &Sharding, kept: &Sharding, target: &Sharding) -> Result<()> {
    if let Some(open) = [source, kept, target].into_iter().find(|sharding| !sharding.partial().is_empty()) {
        return Err(RedistributionError::PartOfSums { sharding: Box::new(open.clone()) }.into());
    }
    let rank = world.rank();
    let [held, owned] = [source, kept].map(|sharding| sharding.mesh().coordinates(rank));
    let len = kept.local_len(&owned);
    if kept.common_len(&owned, source, &held) == len {
        return Ok(());
    }
    let [held, kept] = [source, kept].map(|sharding| Box::new(sharding.clone()));
    Err(RedistributionError::NotHeld { rank, len, kept, held }.into())
}

/// Checks that all ranks create the same redistribution; collective.
pub(super) fn agree(
    world: &World,
    number: u64,
    source: &Sharding,
    kept: Option<&Sharding>,
    target: &Sharding,
    route: &Route,
) -> Result<()> {
    let part = kept.map(|kept| format!(", of which ranks keep {kept}")).unwrap_or_default();
    let says = format!(
        "a redistribution from {source}{part} to {target}\na redistribution of shape {:?} over ({})\n\
         redistribution number {number}\na redistribution by {}",
        source.shape(),
        source.mesh(),
        route.pattern_between(Direction::between(source, target), &common_mesh(kept.unwrap_or(source), target)),
    );
    world.agree(&says, &(source, kept, target, &route.legs))
}

/// Checks that an array has the sharding that a redistribution expects; else `refused` makes an error of both shardings.
pub(super) fn laid_out<T>(
    array: &DistArray<T>,
    wanted: &Sharding,
    refused: impl FnOnce(Box<Sharding>, Box<Sharding>) -> RedistributionError,
) -> Result<()> {
    let given = array.sharding();
    if given == wanted { Ok(()) } else { Err(refused(Box::new(given.clone()), Box::new(wanted.clone())).into()) }
}
