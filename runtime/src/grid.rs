//! The grid: a program's mesh on the world that runs it, seen from one rank.

use crate::comm::connect_with;
use crate::layout::{AxisPart, Mesh, Neighbours, Stages};
use crate::{Group, GroupError, Result, World};
use std::rc::Rc;

/// A mesh whose ranks are those of a world, and this rank's place on it.
///
/// Generated programs make one first, so that a mesh of the wrong size is reported before anything else happens.
pub struct Grid<'w> {
    world: &'w World,
    mesh: Mesh,
    coordinates: Vec<i64>,
}

impl<'w> Grid<'w> {
    /// Lays `mesh` over the ranks of `world`, row-major, the last axis fastest. Does not communicate.
    ///
    /// # Errors
    /// If the number of ranks of the mesh is not the world's.
    pub fn new(world: &'w World, mesh: &Mesh) -> Result<Self> {
        world.check_mesh(mesh)?;
        let coordinates = mesh.coordinates(world.rank()).into_iter().map(|coordinate| coordinate as i64).collect();
        Ok(Self { world, mesh: mesh.clone(), coordinates })
    }

    /// Returns this rank's coordinates, one per axis.
    ///
    /// # Panics
    /// If the mesh does not have `N` axes.
    #[track_caller]
    #[must_use]
    pub fn coordinates<const N: usize>(&self) -> [i64; N] {
        let Ok(coordinates) = self.coordinates[..].try_into() else {
            panic!("{N} coordinates on the mesh ({}): ask for {}, one per axis", self.mesh, self.mesh.ndim())
        };
        coordinates
    }

    /// Returns this rank's coordinates, one per axis.
    #[must_use]
    pub fn coords(&self) -> &[i64] {
        &self.coordinates
    }

    /// Returns the group of the ranks that differ from this one along `axes` only: see [`World::group`].
    ///
    /// # Errors
    /// As [`World::group`].
    #[track_caller]
    pub fn group(&self, axes: &[usize]) -> Result<Rc<Group>> {
        self.world.group(&self.mesh, axes)
    }

    /// Returns the same group, whose collectives are carried out in stages: see [`World::group_in_stages`].
    ///
    /// # Errors
    /// As [`World::group_in_stages`], and [`GroupError::Stages`](crate::GroupError::Stages) if the digits of these stages are not those
    /// of the coordinates.
    #[track_caller]
    pub fn group_in_stages(&self, axes: &[usize], stages: Vec<Vec<AxisPart>>) -> Result<Rc<Group>> {
        let stages = Stages::new(&self.mesh, axes, stages);
        let stages = stages.map_err(|error| GroupError::Stages { mesh: self.mesh.clone(), error: Box::new(error) })?;
        self.world.group_in_stages(&self.mesh, axes, &stages)
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the world.
    #[must_use]
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// [Connects](crate::comm::connect) this rank with those in reach, which send to it, and with those that it sends to. Collective over
    /// the world.
    ///
    /// # Errors
    /// If another rank failed.
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
            let [x, y] = grid.coordinates();
            assert_eq!(grid.coords(), [x, y]);
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
