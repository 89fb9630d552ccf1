//! Which schedules a kernel has on a number of ranks, what each costs on a machine, and the best.
//!
//! ```text
//! kernel, ranks --grid--> how many ranks each loop is divided over, all of them, those first that could be fastest
//!               --space-> steps: homes in even shares, panels, perhaps rotated or pipelined
//!               --polyhedral, planner--> a proved program, and its price
//! ```
//!
//! A grid has a bound in closed form: its leaf cannot be faster, nor can what it moves. Grids are taken in the order of
//! their bounds, and the search ends at the first one that cannot beat the best schedule so far: then no schedule of this
//! space is faster on this machine as it is described. A limit, of time or of how many are looked at, ends it earlier, and leaves a gap: how much
//! faster what is left open may be, by its bounds. Panels that come while others are computed
//! are tried last, on the grids that could be clearly faster so, up to a number of schedules, beyond which there is a gap too. They come one iteration
//! before: panels are alike, so that more of them in flight need more memory and hide no more.
//!
//! What is searched is written as steps, and proved as any schedule is. A grid divides five loops at most. Kernels in sequence share a mesh, and are
//! chosen together (`sequence.rs`).
//!
//! **Invariant:** no MPI, no data, and no proof of its own.
//!
//! | module | holds |
//! | --- | --- |
//! | `grid`, `variant`, `space` | the schedules of a kernel |
//! | `find`, `found`, `limits`, `enough` | the search, what it knows, and what it may take |
//! | `choice`, `error` | what is chosen, or why nothing is |
//! | `sequence`, `stay`, `order`, `contraction` | several kernels, and the order in which operands are contracted |
//! | `product` | products of arrays that lie somewhere |

mod choice;
mod contraction;
mod enough;
mod error;
mod find;
mod found;
mod grid;
mod limits;
mod order;
pub mod product;
mod sequence;
mod space;
mod stay;
mod variant;

pub use choice::{Candidate, Choice};
pub use contraction::{Contraction, ContractionSearch};
pub use error::{Enough, SearchError};
pub use find::Search;
pub use limits::Limits;
pub use order::Order;
pub use sequence::{SequenceCandidate, SequenceChoice, SequenceSearch, in_rounds};

use polyshard_machine::Machine;
use polyshard_polyhedral::Schedule;

/// Finds schedules for a kernel.
///
/// ```
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?; // 4 nodes of one GPU
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let choice = matmul.auto(4, &machine).find()?;
/// let program = choice.program(); // to be run by as many ranks as its mesh has
/// assert_eq!(program.mesh().size(), choice.best().ranks());
/// # Ok::<(), polyshard::Error>(())
/// ```
pub trait Choose {
    /// Returns the search for the fastest schedule of this kernel on at most `ranks` ranks, devices `0..` of the machine.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[8, 1])?;
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let choice = matmul.auto(8, &machine).find()?;
    /// assert_eq!(choice.best().grid(), [("m".into(), 2), ("n".into(), 2), ("k".into(), 2)]);
    /// assert_eq!(choice.gap(), 0.0);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    fn auto<'a>(&self, ranks: usize, machine: &'a Machine) -> Search<'a>;
}

impl Choose for Schedule {
    fn auto<'a>(&self, ranks: usize, machine: &'a Machine) -> Search<'a> {
        Search::new(self.clone(), ranks, machine)
    }
}
