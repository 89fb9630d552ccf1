//! Placement: which part of a mesh runs on which part of a machine.
//!
//! After N. Xie, T. Norman, D. Grewe and D. Vytiniotis, "Synthesizing optimal parallelism placement and reduction
//! strategies on hierarchical systems for deep learning", MLSys 2022, sections 2.1 and 3.1. A placement is a
//! [`ParallelismMatrix`]: how many ways each mesh axis is cut at each level of the machine. That excludes placements
//! that split a level irregularly, and with them all but a few of the `devices!` ways to number devices.
//!
//! | file | holds |
//! | --- | --- |
//! | `matrix` | a parallelism matrix as a map between mesh coordinates and ranks |
//! | `enumerate` | all matrices, and their number |
//! | `choice` | the best matrix for a workload |
//! | `placed` | a mesh with its machine and matrix |
//!
//! Placement only numbers devices; `reduce` chooses which collectives then run.

mod choice;
mod enumerate;
mod error;
mod matrix;
mod placed;

pub use choice::{Ranked, Traffic, best};
pub use enumerate::{count, matrices};
pub use error::PlacementError;
pub use matrix::ParallelismMatrix;
pub use placed::{AxisRef, PlacedMesh};
