//! Renumbered worlds: the same ranks, numbered to place a mesh on a machine.
//!
//! All operations in a world number its ranks row-major over a mesh. To make rank `r` of the mesh the machine's rank that a placement
//! assigns to it, the world is split into one group in that order; programs, redistributions and collectives then run under the placement
//! without knowing it. It cannot move data: an array belongs to the world in which it was made.

use super::World;
use crate::layout::Mesh;
use crate::{GroupError, Result};
use std::rc::Rc;

/// The numbering of a world's ranks, if it differs from the launcher's: see [`World::renumbered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbering {
    mesh: Mesh,
    ranks: Vec<usize>,
    text: String,
}

impl Numbering {
    /// Returns the launcher's rank of each rank.
    #[must_use]
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// Returns its name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.lines().next().unwrap_or("")
    }
}

impl World {
    /// Returns this world with its ranks numbered as the mesh's: rank `r` is this world's rank `ranks[r]`, which is that of the launcher.
    ///
    /// ```text
    /// ranks = [0, 2, 1, 3]
    ///
    /// this world      rank 0     rank 1     rank 2     rank 3
    /// returned        rank 0     rank 2     rank 1     rank 3
    /// ```
    ///
    /// The first call with such an order is collective (MPI 3.1, section 6.4.2); the world is kept. Error messages name this world's ranks,
    /// those of the machine. Arrays and all other collective objects belong to the world in which they were made.
    ///
    /// `text` describes the order: its first line names it in messages, and all of it must be the same on all ranks.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 2)]);
    /// let [x, y] = mesh.axes();
    /// let sharding = Sharding::new(&mesh, &[2, 2], &[Placement::block(0, x), Placement::block(1, y)]).expect("one");
    /// let blocks = spmd(4, |world| {
    ///     let world = world.renumbered(&mesh, &[0, 2, 1, 3], "columns first")?;
    ///     let array = DistArray::from_fn(&world, &sharding, |index| (10 * index[0] + index[1]) as f64)?;
    ///     Ok(array.block()[0])
    /// })?;
    /// assert_eq!(blocks, [0.0, 10.0, 1.0, 11.0]); // the launcher's rank 1 is at x = 1
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`GroupError`] if the number of ranks of the mesh is not the world's, `ranks` does not have each of them once, or the world is
    /// renumbered already: all are detected before any communication. Otherwise as
    /// [`Communicator::split`](crate::comm::Communicator::split).
    pub fn renumbered(&self, mesh: &Mesh, ranks: &[usize], text: &str) -> Result<Rc<World>> {
        if let Some(numbering) = &self.numbering {
            return Err(GroupError::PlacedAlready { name: numbering.name().into() }.into());
        }
        self.check_mesh(mesh)?;
        let same = |world: &&Rc<World>| {
            let of = world.numbering.as_ref();
            of.is_some_and(|of| of.mesh == *mesh && of.ranks == ranks && of.text == text)
        };
        if let Some(world) = self.renumbered.borrow().iter().find(same) {
            return Ok(Rc::clone(world));
        }
        let own = ranks.iter().position(|&rank| rank == self.rank());
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let Some(own) = own.filter(|_| sorted.iter().copied().eq(0..self.size())) else {
            return Err(GroupError::NotAPermutation { ranks: ranks.to_vec(), size: self.size() }.into());
        };
        self.agree(&format!("the placement {text}\nthe placement {ranks:?} of the mesh ({mesh})"), &(mesh, ranks))?;
        let comm = match ranks.is_sorted() {
            true => Rc::clone(&self.comm),
            false => Rc::from(self.comm.split(0, own)?),
        };
        let numbering = Numbering { mesh: mesh.clone(), ranks: ranks.to_vec(), text: text.into() };
        let world = Rc::new(World { numbering: Some(numbering), ..self.with_comm(comm) });
        self.renumbered.borrow_mut().push(Rc::clone(&world));
        Ok(world)
    }

    /// Returns the numbering of the ranks, if this world was [`renumbered`](Self::renumbered).
    #[must_use]
    pub fn numbering(&self) -> Option<&Numbering> {
        self.numbering.as_ref()
    }
}
