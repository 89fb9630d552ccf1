//! What makes a redistribution impossible, said before anything moves.

use crate::layout::Sharding;
use crate::{DistArray, Error, Result, World};

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
    world.check_mesh(target.mesh())?;
    let closes = source.partial_axes() != target.partial_axes();
    if closes && source.mesh() != target.mesh() {
        return Err(Error::Usage(format!(
            "partial sums of an array on the mesh ({}) cannot be closed on the mesh ({}); write both shardings over one mesh",
            source.mesh(),
            target.mesh()
        )));
    }
    Ok(())
}

/// Checks that each rank holds what it is to keep, and that no sums are open; this rank's part of it.
pub(super) fn holds(world: &World, source: &Sharding, kept: &Sharding, target: &Sharding) -> Result<()> {
    if let Some(open) = [source, kept, target].into_iter().find(|sharding| !sharding.partial().is_empty()) {
        return Err(Error::Usage(format!(
            "a part of an array is moved, but one sharded {open} holds terms of sums; use `Redistribution::new`, which \
             closes them"
        )));
    }
    let rank = world.rank();
    let [held, owned] = [source, kept].map(|sharding| sharding.mesh().coordinates(rank));
    let len = kept.local_len(&owned);
    if kept.common_len(&owned, source, &held) == len {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "rank {rank} is to keep {len} elements by {kept}, but does not hold all of them by {source}; give a sharding of which \
         each rank owns part of what it holds"
    )))
}

/// Checks that all ranks mean the same redistribution; collective.
pub(super) fn agree(
    world: &World,
    number: u64,
    source: &Sharding,
    kept: Option<&Sharding>,
    target: &Sharding,
) -> Result<()> {
    let part = kept.map(|kept| format!(", of which ranks keep {kept}")).unwrap_or_default();
    world.agree(&format!(
        "a redistribution from {source}{part} to {target}\na redistribution of shape {:?} over ({})\n\
         redistribution number {number}\na redistribution from {source:?} of {kept:?} to {target:?}",
        source.shape(),
        source.mesh(),
    ))
}

/// Checks that an array is laid out by `wanted`, which a redistribution `takes` or `makes`.
pub(super) fn array<T>(array: &DistArray<T>, wanted: &Sharding, what: &str, cure: &str) -> Result<()> {
    let held = array.sharding();
    if held.shape() == wanted.shape() && held.mesh() == wanted.mesh() && held.has_same_owners(wanted) {
        return Ok(());
    }
    let [held, wanted] = [held, wanted]
        .map(|sharding| format!("of shape {:?} over ({}), sharded {sharding}", sharding.shape(), sharding.mesh()));
    Err(Error::Usage(format!("an array {held}, is given to a redistribution that {what} arrays {wanted}; {cure}")))
}
