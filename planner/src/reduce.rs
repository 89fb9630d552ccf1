//! Reductions: all ways to build one from steps that fit a machine, the proof of each, and the fastest.
//!
//! After N. Xie, T. Norman, D. Grewe and D. Vytiniotis, "Synthesizing optimal parallelism placement and reduction
//! strategies on hierarchical systems for deep learning", MLSys 2022, sections 3.2 to 3.5 and 5. A reduction over axes
//! of a mesh is synthesised on the [`Hierarchy`] of those axes' factors alone, with two devices per level, so the work
//! depends on the number of levels only; then it is lowered to groups of ranks of the whole machine, where it can be
//! proved again.
//!
//! | file | holds |
//! | --- | --- |
//! | `hierarchy` | the synthesis hierarchy of a placement and reduction axes |
//! | `instruction` | slice, form and collective; programs, which are lists of them |
//! | `synthesize` | all programs up to a number of steps |
//! | `lower` | groups of ranks |
//! | `choice` | the time of a program by the prices of [`cost`](mod@crate::cost), and the fastest program |
//! | `plan` | the reduction of an array over axes of a placed mesh, by one program or in one fixed order |
//! | `explain` | the steps of a plan and their expected times, as text |
//!
//! The rules of the collectives, the groups of ranks and the proof that they compute the sum are in
//! [`polyshard_program::reduction`]. Programs are plans: nothing here moves data.

mod choice;
mod error;
mod explain;
mod hierarchy;
mod instruction;
mod lower;
mod plan;
mod synthesize;

pub use choice::{Ranked, ReduceOptions, Simulation, best};
pub use error::ReduceError;
pub use hierarchy::Hierarchy;
pub use instruction::{Form, Instruction, ReductionProgram};
pub use plan::{ReductionPlan, Strategy};
pub use synthesize::{AllowedMasters, synthesize};
