//! What makes a redistribution impossible, said before anything moves.

use crate::layout::Sharding;
use crate::{DistArray, RedistributionError, Result, World};
use polyshard_program::Way;

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

/// Checks that each rank holds what it is to keep, and that no sums are open; this rank's part of it.
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

/// Checks that all ranks mean the same redistribution; collective.
pub(super) fn agree(
    world: &World,
    number: u64,
    source: &Sharding,
    kept: Option<&Sharding>,
    target: &Sharding,
    way: Way,
) -> Result<()> {
    let part = kept.map(|kept| format!(", of which ranks keep {kept}")).unwrap_or_default();
    world.agree(&format!(
        "a redistribution from {source}{part} to {target}\na redistribution of shape {:?} over ({})\n\
         redistribution number {number}\na redistribution from {source:?} of {kept:?} to {target:?} by {way:?}",
        source.shape(),
        source.mesh(),
    ))
}

/// Checks that a redistribution from `wanted` is given an array that is laid out so.
pub(super) fn input<T>(array: &DistArray<T>, wanted: &Sharding) -> Result<()> {
    let differing = differing(array.sharding(), wanted);
    differing.map_or(Ok(()), |[given, wanted]| Err(RedistributionError::Input { given, wanted }.into()))
}

/// Checks that a redistribution to `wanted` is given an array that is laid out so.
pub(super) fn output<T>(array: &DistArray<T>, wanted: &Sharding) -> Result<()> {
    let differing = differing(array.sharding(), wanted);
    differing.map_or(Ok(()), |[given, wanted]| Err(RedistributionError::Output { given, wanted }.into()))
}

/// Returns both shardings if arrays of one are not laid out as those of the other.
fn differing(given: &Sharding, wanted: &Sharding) -> Option<[Box<Sharding>; 2]> {
    (given != wanted).then(|| [given, wanted].map(|sharding| Box::new(sharding.clone())))
}
