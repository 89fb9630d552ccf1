//! Enumerates the schedules of a kernel on a number of ranks, prices them on a machine, and finds the best.
//!
//! ```text
//! kernel, ranks --grid--> how many ranks each loop is divided over, all of them, those first that could be fastest
//!               --space-> steps: homes in even shares, panels, perhaps rotated or pipelined
//!               --polyhedral, planner--> a proved program, and its price
//! ```
//!
//! A grid has a closed-form lower bound on the time of its leaf and of its transfers. Grids are taken in the order of
//! their bounds, and the search ends at the first one that cannot beat the best schedule so far: then no schedule of
//! this space is faster on this machine as described. A limit on time, or on the number of schedules, ends it earlier
//! and leaves a gap: how much faster the schedules left open may be, by their bounds. Pipelined schedules, which fetch
//! panels while others are computed, are tried last: only on grids that could be clearly faster that way, and up to a
//! number of schedules, beyond which a gap remains too. Panels are fetched one iteration ahead: since all take equally
//! long, more of them in flight need more memory and hide no more.
//!
//! Schedules are written as steps, and the best is proved like any other schedule. A grid divides at most five loops.
//! Kernels in sequence share a mesh, and their schedules are chosen together (`sequence.rs`).
//!
//! **Invariant:** no MPI, no data, and no separate proofs.
//!
//! | module | holds |
//! | --- | --- |
//! | `grid`, `variant`, `space` | the schedules of a kernel |
//! | `find`, `found`, `limits`, `enough` | the search, its state, its limits, and how many ranks would be enough |
//! | `given` | shardings that are kept |
//! | `choice`, `error` | the chosen schedules, or the reason for finding none |
//! | `stages`, `sequence`, `stay`, `order`, `contraction` | several kernels, and the order in which operands are contracted |

mod choice;
mod contraction;
mod enough;
mod error;
mod find;
mod found;
mod given;
mod grid;
mod limits;
mod order;
mod sequence;
mod space;
mod stages;
mod stay;
mod variant;

pub use choice::{Candidate, Choice};
pub use contraction::{Contraction, ContractionSearch};
pub use error::{Enough, SearchError};
pub use find::Search;
pub use limits::Limits;
pub use order::Order;
pub use polyshard_polyhedral::{Member, PANEL, Passes, Refused, in_rounds};
pub use sequence::SequenceSearch;

use polyshard_machine::Machine;
use polyshard_polyhedral::{Block, Schedule};

/// Finds schedules for a kernel or a block.
///
/// ```
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[8, 1])?; // 8 nodes of one GPU
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let choice = matmul.auto(8, &machine).find()?;
/// assert_eq!(choice.best().grid(), [("m".into(), 2), ("n".into(), 2), ("k".into(), 2)]);
/// assert_eq!(choice.gap(), 0.0);
/// let program = choice.program(); // to be run by as many ranks as its mesh has
/// assert_eq!(program.mesh().size(), choice.best().ranks());
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// For a [block](Block) it is a [`SequenceSearch`]. The `shard` steps of a schedule are kept, on the mesh of `on`, or else
/// with the best extents of the axes that they name:
///
/// ```
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let block = kernel! {
///     fn normalised(A: [f64; 4096, 4096], v: [f64; 4096]) -> y: [f64; 4096] {
///         let z[i] = A[i, j] * v[j];
///         let s = z[i] * z[i];
///         y[i] = z[i] / sqrt(s);
///     }
/// };
/// let (mesh, i) = (Mesh::new([("x", 4)]), Var::new("i"));
/// let choice = block.shard("A", [i.at("x")]).auto(4, &machine).on(&mesh).find()?;
/// assert_eq!(choice.program().sharding("A").to_string(), "[0 @ x]");
/// assert_eq!(choice.program().mesh(), &mesh);
/// # Ok::<(), polyshard::Error>(())
/// ```
pub trait Choose {
    /// The search.
    type Search<'a>;

    /// Returns the search for the fastest schedule on at most `ranks` ranks, devices `0..` of the machine.
    fn auto<'a>(&self, ranks: usize, machine: &'a Machine) -> Self::Search<'a>;
}

impl Choose for Schedule {
    type Search<'a> = Search<'a>;

    fn auto<'a>(&self, ranks: usize, machine: &'a Machine) -> Search<'a> {
        Search::new(self.clone(), ranks, machine)
    }
}

impl Choose for Schedule<Block> {
    type Search<'a> = SequenceSearch<'a>;

    fn auto<'a>(&self, ranks: usize, machine: &'a Machine) -> SequenceSearch<'a> {
        SequenceSearch::of_block(self, ranks, machine)
    }
}
