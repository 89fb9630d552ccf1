//! Strategies: the user's choice of how a reduction is carried out.

use super::ReductionProgram;
use polyshard_program::reduction::Lowered;

/// How a reduction runs.
///
/// ```
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard::planner::reduce::Strategy;
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[2, 2])?;
/// let placed = PlacedMesh::new(&Mesh::new([("data", 4)]), &machine, &ParallelismMatrix::new(vec![vec![2, 2]])?)?;
/// let seconds = |strategy| {
///     let sum = placed.reduction(&["data"], 1 << 20, DType::F32, strategy)?;
///     Ok::<_, polyshard::Error>(sum.simulation().total())
/// };
/// assert!(seconds(Strategy::Best)? < seconds(Strategy::Direct)?);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Strategy {
    /// In one all-reduce of each group.
    Direct,
    /// By the fastest program of at most five steps on the machine of the placement, by the machine's model
    /// ([`best`](super::best)).
    #[default]
    Best,
    /// By this program, lowered for the placement and proved.
    Program(ReductionProgram),
    /// By these steps, which may be written by hand or for no hierarchy at all; they are proved.
    Lowered(Lowered),
    /// In the order of the mesh's coordinates: the same bits for every placement and every number of ranks per node, on
    /// threads and on MPI, at the price of a step in which all ranks exchange with all.
    Deterministic,
}
