//! The grid: a program's mesh on the world that runs it, seen from one rank.

use crate::comm::connect_with;
use crate::layout::{Mesh, Neighbours};
use crate::{Group, Region, Result, World};
use smallvec::SmallVec;
use std::rc::Rc;

/// A mesh whose ranks are those of a world, and this rank's place on it.
///
/// A kernel makes one first, so that a mesh of the wrong size is reported before anything else happens.
pub(crate) struct Grid<'w> {
    world: &'w World,
    mesh: Mesh,
    coordinates: Vec<i64>,
}

impl<'w> Grid<'w> {
    /// Lays `mesh` over the ranks of `world`, row-major, the last axis fastest. Does not communicate.
    pub(crate) fn new(world: &'w World, mesh: &Mesh) -> Result<Self> {
        world.check_mesh(mesh)?;
        let coordinates = mesh.coordinates(world.rank()).into_iter().map(|coordinate| coordinate as i64).collect();
        Ok(Self { world, mesh: mesh.clone(), coordinates })
    }

    /// Returns this rank's coordinates, one per axis.
    pub(crate) fn coords(&self) -> &[i64] {
        &self.coordinates
    }

    /// Returns the group of the ranks that differ from this one along `axes` only: see [`World::group`].
    #[track_caller]
    pub(crate) fn group(&self, axes: &[usize]) -> Result<Rc<Group>> {
        self.world.group(&self.mesh, axes)
    }

    /// Returns the mesh.
    pub(crate) fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the world.
    pub(crate) fn world(&self) -> &'w World {
        self.world
    }

    /// [Connects](crate::comm::connect) this rank with those in reach, which send to it, and with those that it sends to. Collective over
    /// the world.
    pub(crate) fn connect(&self, reach: &Neighbours) -> Result<()> {
        let mirrored = reach.mirrored();
        let ranks = |reach| self.others(reach).map(|(rank, ..)| rank);
        Ok(connect_with(self.world.comm(), ranks(&mirrored), ranks(reach))?)
    }

    /// The other ranks in reach, ascending, each with its coordinates as mesh coordinates and as
    /// indices into a program.
    pub(crate) fn others(&self, reach: &Neighbours) -> impl Iterator<Item = (usize, Vec<usize>, Vec<i64>)> + '_ {
        let own: Vec<_> = self.coordinates.iter().map(|&coordinate| coordinate as usize).collect();
        let me = self.world.rank();
        let all = self.mesh.in_reach(&own, reach);
        let all = all.map(|coordinates| (self.mesh.rank(&coordinates), coordinates));
        all.filter(move |(rank, _)| *rank != me).map(|(rank, coordinates)| {
            let indices = coordinates.iter().map(|&coordinate| coordinate as i64).collect();
            (rank, coordinates, indices)
        })
    }

    /// Returns the rank to which `image` maps this one, and the rank that `image` maps to this one, with that rank's
    /// region, if it exists and its region is not empty.
    ///
    /// `inverse` are the coordinates of the rank that should map to this one; if they are outside of the mesh or map
    /// elsewhere, as short meshes and empty tiles allow, the latter is `None`.
    pub(crate) fn permutation(
        &self,
        image: impl Fn(&[i64]) -> SmallVec<[i64; 6]>,
        inverse: &[i64],
        region: impl Fn(&[i64]) -> Region,
    ) -> (usize, Option<(usize, Region)>) {
        let to = self.find(&image(self.coords())).unwrap_or_else(|| self.world().rank());
        let from = self.find(inverse).filter(|_| image(inverse)[..] == *self.coords());
        let from = from.map(|rank| (rank, region(inverse))).filter(|(_, region)| !region.is_empty());
        (to, from)
    }

    /// The rank at the coordinates, if they are on the mesh.
    fn find(&self, coordinates: &[i64]) -> Option<usize> {
        coordinates.iter().zip(self.mesh.as_slice()).try_fold(0, |rank, (&at, axis)| {
            let at = usize::try_from(at).ok().filter(|&at| at < axis.extent)?;
            Some(rank * axis.extent + at)
        })
    }
}

/// Returns a count of iterations: 0 if `count` is negative, as for a tile beyond the end.
#[must_use]
pub fn count(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Reach;
    use crate::spmd;

    #[test]
    fn ranks_are_row_major_over_the_mesh() {
        let mesh = Mesh::new([("x", 2), ("y", 3)]);
        let seen = spmd(6, |world| -> Result<_> {
            let grid = Grid::new(world, &mesh)?;
            let &[x, y] = grid.coords() else { unreachable!("the mesh has two axes") };
            assert_eq!((grid.group(&[0])?.size(), grid.group(&[1])?.rank()), (2, y as usize));
            Ok([x, y])
        });
        assert_eq!(seen.unwrap(), [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
    }

    #[test]
    fn ranks_connect_with_all_in_reach() {
        let mesh = Mesh::new([("x", 2), ("y", 3)]);
        let reaches = [
            Reach::OWN,
            Reach::All,
            Reach::Within { low: -1, high: 0 },
            Reach::Within { low: 2, high: 2 },
            Reach::Around { low: 1, high: 1 },
            Reach::Around { low: -4, high: 1 },
        ];
        for (x, y) in reaches.into_iter().flat_map(|x| reaches.map(|y| (x, y))) {
            for reach in [Neighbours::in_box([x, y]), Neighbours::in_star([x, y])] {
                // Each message that is sent is received, and all of them are empty.
                let bytes = spmd(6, |world| {
                    Grid::new(world, &mesh)?.connect(&reach)?;
                    Ok::<_, crate::Error>(world.comm().received().bytes())
                });
                assert_eq!(bytes.expect("all connect"), [0; 6], "{reach:?}");
            }
        }
    }

    #[test]
    fn a_mesh_that_does_not_match_the_ranks_is_refused() {
        let refused = spmd(2, |world| Grid::new(world, &Mesh::new([("x", 3)])).map(|_| ()));
        let message = refused.expect_err("the mesh has 3 ranks").to_string();
        assert!(message.contains("the mesh (x: 3) has 3 ranks, but the program runs on 2"), "{message}");
    }
}
