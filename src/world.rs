//! Worlds under placements: ranks renumbered as a mesh is placed on a machine.

use crate::{Error, Result};
use polyshard_planner::placement::PlacedMesh;
use polyshard_runtime::World;
use std::rc::Rc;

/// Returns a world under a placement: its rank `r` is the given world's rank `placed.ranks()[r]`. Devices of the
/// machine are the ranks of the world that `spmd` passes, which are the launcher's.
///
/// ```text
/// placed.ranks() = [0, 2, 1, 3]
///
/// given           rank 0     rank 1     rank 2     rank 3
/// returned        rank 0     rank 2     rank 1     rank 3
/// ```
///
/// The first call with a placement is collective (MPI 3.1, section 6.4.2); the world is cached. Errors of ranks name
/// the ranks of the given world, which are the machine's. Arrays and all other collective objects belong to the world
/// that they were made with.
///
/// ```
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh, place};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[2, 2])?;
/// let mesh = Mesh::new([("x", 2), ("y", 2)]);
/// // Axis x inside nodes, axis y across.
/// let placed = PlacedMesh::new(&mesh, &machine, &ParallelismMatrix::new(vec![vec![1, 2], vec![2, 1]])?)?;
/// let [x, y] = mesh.axes();
/// let sharding = Sharding::new(&mesh, &[2, 2], &[Placement::block(0, x), Placement::block(1, y)])?;
/// let blocks = polyshard::spmd(4, |world| {
///     let world = place(world, &placed)?;
///     let array = DistArray::from_fn(&world, &sharding, |index| (10 * index[0] + index[1]) as f64)?;
///     Ok(array.block()[0])
/// })?;
/// assert_eq!(blocks, [0.0, 10.0, 1.0, 11.0]); // device 1 is at x = 1
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If the mesh and the world differ in size, or the world is placed already, both found before any communication; or as
/// [`World::renumbered`].
pub fn place(world: &World, placed: &PlacedMesh) -> Result<Rc<World>> {
    if let Some(numbering) = world.numbering() {
        return Err(Error::PlacedAlready { name: numbering.name().into() });
    }
    Ok(world.renumbered(placed.mesh(), placed.ranks(), &placed.to_string())?)
}
