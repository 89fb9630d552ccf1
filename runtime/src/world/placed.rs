//! Worlds under placements: the same ranks, numbered as a mesh lies on a machine.
//!
//! Whatever runs in a world numbers its ranks row-major over a mesh. So that rank `r` of the mesh is the device that
//! a placement says, the world is split into one group in that order; programs, redistributions and collectives then
//! run under the placement and do not know it. It must not move data: an array belongs to the world it was made in.

use super::World;
use crate::{Error, Result};
use polyshard_planner::placement::PlacedMesh;
use std::rc::Rc;

impl World {
    /// Returns this world under a placement: its rank `r` is this world's rank `placed.ranks()[r]`. Devices of the
    /// machine are the ranks of this world, which are those of the launcher.
    ///
    /// ```text
    /// placed.ranks() = [0, 2, 1, 3]
    ///
    /// this world      rank 0     rank 1     rank 2     rank 3
    /// returned        rank 0     rank 2     rank 1     rank 3
    /// ```
    ///
    /// The first call with a placement is collective (MPI 3.1, section 6.4.2); the world is kept. What ranks say when
    /// they fail names this world's ranks, those of the machine. Arrays and everything else that is collective belong
    /// to the world that they were made with.
    ///
    /// ```
    /// use polyshard_machine::Machine;
    /// use polyshard_planner::placement::{ParallelismMatrix, Place};
    /// use polyshard_runtime::layout::{Mesh, Placement, Sharding};
    /// use polyshard_runtime::{DistArray, Error, spmd};
    /// let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2])).expect("a machine");
    /// let mesh = Mesh::new([("x", 2), ("y", 2)]);
    /// // Axis x inside nodes, axis y across.
    /// let matrix = ParallelismMatrix::new(vec![vec![1, 2], vec![2, 1]]).expect("a matrix");
    /// let placed = mesh.placed(&machine, &matrix).expect("the matrix is for both");
    /// let [x, y] = mesh.axes();
    /// let sharding = Sharding::new(&mesh, &[2, 2], &[Placement::block(0, x), Placement::block(1, y)]).expect("one");
    /// let blocks = spmd(4, |world| {
    ///     let world = world.placed(&placed)?;
    ///     let array = DistArray::from_fn(&world, &sharding, |index| (10 * index[0] + index[1]) as f64)?;
    ///     Ok::<_, Error>(array.block()[0])
    /// })?;
    /// assert_eq!(blocks, [0.0, 10.0, 1.0, 11.0]); // device 1 is at x = 1
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// If the mesh has not as many ranks as the world, or the world is placed already: both are said before any
    /// communication. As [`Communicator::split`](crate::comm::Communicator::split) besides.
    pub fn placed(&self, placed: &PlacedMesh) -> Result<Rc<World>> {
        if let Some(placement) = &self.placement {
            return Err(Error::Usage(format!(
                "the world is placed already, {placement}; call `placed` on the world that `spmd` gives"
            )));
        }
        self.check_mesh(placed.mesh())?;
        if let Some(world) = self.placed.borrow().iter().find(|world| world.placement.as_ref() == Some(placed)) {
            return Ok(Rc::clone(world));
        }
        self.agree(&format!("the placement {placed}\n{placed:?}"))?;
        let comm = match placed.ranks().is_sorted() {
            true => Rc::clone(&self.comm),
            false => Rc::from(self.comm.split(0, placed.mesh_rank(self.rank()))?),
        };
        let world = Rc::new(World {
            placement: Some(placed.clone()),
            // Numbers tell redistributions apart that run at once, so no other of these ranks may have the same.
            redistributions: Rc::clone(&self.redistributions),
            ..World::new(comm, self.backend)
        });
        self.placed.borrow_mut().push(Rc::clone(&world));
        Ok(world)
    }

    /// Returns the placement that the ranks are numbered by, if this world was [`placed`](Self::placed).
    #[must_use]
    pub fn placement(&self) -> Option<&PlacedMesh> {
        self.placement.as_ref()
    }
}
