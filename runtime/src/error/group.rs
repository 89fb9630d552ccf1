//! Errors of meshes, their axes and orders of ranks.

use crate::Backend;
use crate::layout::{Mesh, StagesError, counted};

/// Why the ranks of a world cannot be grouped or numbered along a mesh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum GroupError {
    /// The mesh has more or fewer ranks than the world.
    #[error(
        "the mesh ({mesh}) has {}, but the program runs on {size}: {}",
        counted(.mesh.size(), "rank"),
        started(*.backend, .mesh.size())
    )]
    Mesh { mesh: Mesh, size: usize, backend: Backend },
    /// The mesh has no such axis.
    #[error("no axis {axis}: the mesh ({mesh}) has {}, numbered from 0", counted(.mesh.ndim(), "axis"))]
    NoAxis { axis: usize, mesh: Mesh },
    /// A group along one axis twice.
    #[error("axis {axis} of the mesh ({mesh}) is given twice for one group")]
    AxisTwice { axis: usize, mesh: Mesh },
    /// The stages do not make up a collective along the axes.
    #[error("invalid stages of a collective on the mesh ({mesh}): {error}")]
    Stages { mesh: Mesh, error: Box<StagesError> },
    /// The world is already placed.
    #[error("the world is already placed, {name}; pass the world of `spmd`")]
    PlacedAlready {
        /// The order of its ranks, as messages name it.
        name: String,
    },
    /// An order of ranks that is not a permutation of them.
    #[error("the order {ranks:?} does not have each of the ranks 0..{size} once; give it each once")]
    NotAPermutation { ranks: Vec<usize>, size: usize },
    /// A group of the first ranks has none, or more than the world.
    #[error("cannot take the first {ranks} of {size} ranks; give 1 to {size}")]
    Leading { ranks: usize, size: usize },
}

/// How to start a program on a number of ranks.
fn started(backend: Backend, ranks: usize) -> String {
    match backend {
        Backend::Threads => format!("call `spmd({ranks}, ..)`"),
        Backend::Mpi => format!("start it with `mpirun -n {ranks}`"),
    }
}
