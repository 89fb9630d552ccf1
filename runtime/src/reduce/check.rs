//! What makes a reduction impossible, said before anything moves.

use super::Strategy;
use super::words::over;
use crate::{Element, Error, Result, World};
use polyshard_planner::placement::PlacedMesh;

/// Checks that a world is of the placement's devices, in their order or in that of this placement.
pub(super) fn world(world: &World, placed: &PlacedMesh) -> Result<()> {
    world.check_mesh(placed.mesh())?;
    match world.placement() {
        Some(placement) if placement.ranks() != placed.ranks() => Err(Error::Usage(format!(
            "a reduction on {placed} cannot run in a world that is placed otherwise, {placement}; give the world that \
             `spmd` gives, or that one placed alike"
        ))),
        _ => Ok(()),
    }
}

/// Refuses an array that no memory can hold.
pub(super) fn fits<T: Element>(elements: usize) -> Result<()> {
    let most = isize::MAX as usize / size_of::<T>();
    if elements <= most {
        return Ok(());
    }
    let message = format!("no array has {elements} elements of `{}`; give at most {most}", T::NAME);
    Err(Error::Usage(message))
}

/// Returns the machine's rank of this process.
pub(super) fn device(world: &World, placed: &PlacedMesh) -> usize {
    if world.placement().is_some() { placed.ranks()[world.rank()] } else { world.rank() }
}

/// Returns groups of the machine's ranks as groups of the world's.
pub(super) fn numbered(world: &World, placed: &PlacedMesh, groups: &[Vec<usize>]) -> Vec<Vec<usize>> {
    if world.placement().is_none() {
        return groups.to_vec();
    }
    groups.iter().map(|group| group.iter().map(|&device| placed.mesh_rank(device)).collect()).collect()
}

/// Checks that all ranks mean the same reduction; collective.
pub(super) fn agree<T: Element>(
    world: &World,
    placed: &PlacedMesh,
    axes: &[usize],
    elements: usize,
    strategy: &Strategy,
) -> Result<()> {
    // Machines print briefly; their numbers are in the last line.
    world.agree(&format!(
        "a reduction of {elements} elements\na reduction of `{}` over {}\na reduction on {placed}\nthe strategy \
         {strategy:?}\n{placed:?}",
        T::NAME,
        over(placed, axes)
    ))
}

/// Checks that an array is as long as a reduction's.
pub(super) fn length(given: usize, elements: usize) -> Result<()> {
    if given == elements {
        return Ok(());
    }
    let message = format!("an array of {given} elements is given to a reduction of {elements}; make one for {given}");
    Err(Error::Usage(message))
}
