//! What can be wrong with a mesh, its axes or an order of ranks.

use crate::Backend;
use crate::comm::plural;
use crate::layout::{Mesh, StagesError};

/// Why the ranks of a world cannot be grouped or numbered along a mesh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum GroupError {
    /// The mesh has more or fewer ranks than the world.
    #[error(
        "the mesh ({mesh}) has {}, but the program runs on {size}: {}",
        plural(.mesh.size(), "rank"),
        started(*.backend, .mesh.size())
    )]
    Mesh { mesh: Mesh, size: usize, backend: Backend },
    /// The mesh has no such axis.
    #[error("no axis {axis}: the mesh ({mesh}) has axes 0..{}", .mesh.ndim())]
    NoAxis { axis: usize, mesh: Mesh },
    /// A group is asked for along the same axis twice.
    #[error("axis {axis} of the mesh ({mesh}) is given twice for one group")]
    AxisTwice { axis: usize, mesh: Mesh },
    /// Stages that are not those of a collective along the axes.
    #[error("a collective on the mesh ({mesh}) cannot be carried out in such stages: {error}")]
    Stages { mesh: Mesh, error: Box<StagesError> },
    /// The world is renumbered already.
    #[error("the world is placed already, {name}; give the world that `spmd` gives")]
    PlacedAlready {
        /// What messages call the order that its ranks have.
        name: String,
    },
    /// An order of ranks that is not a permutation of them.
    #[error("the order {ranks:?} does not have each of the ranks 0..{size} once; give it each once")]
    NotAPermutation { ranks: Vec<usize>, size: usize },
    /// The first ranks, but none or more than there are.
    #[error("the first {ranks} of {size} ranks are asked for; ask for 1 to {size}")]
    Leading { ranks: usize, size: usize },
}

/// Says how a program is started on a number of ranks.
fn started(backend: Backend, ranks: usize) -> String {
    match backend {
        Backend::Threads => format!("call `spmd({ranks}, ..)`"),
        Backend::Mpi => format!("start it with `mpirun -n {ranks}`"),
    }
}
