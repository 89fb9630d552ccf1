//! Strategies: what a user says of how a reduction is to be carried out.

use super::ReductionProgram;
use polyshard_program::reduction::Lowered;

/// How a reduction runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Strategy {
    /// In one all-reduce of each group.
    Direct,
    /// By the program of at most five steps that takes least time on the machine of the placement, by the model of
    /// the machine ([`best`](super::best)).
    #[default]
    Best,
    /// By this program, lowered for the placement and proved.
    Program(ReductionProgram),
    /// By these steps, which may be written by hand or for no hierarchy at all; they are proved.
    Lowered(Lowered),
    /// In the order of the mesh's coordinates: the same bits for every placement, every number of ranks per node and
    /// on threads as on MPI, at the price of a step in which all talk to all.
    Deterministic,
}
