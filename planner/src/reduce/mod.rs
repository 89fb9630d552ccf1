//! Reductions: all ways to make one of steps that fit a machine, the proof of each, and the fastest.
//!
//! After N. Xie, T. Norman, D. Grewe and D. Vytiniotis, "Synthesizing optimal parallelism placement and reduction
//! strategies on hierarchical systems for deep learning", MLSys 2022, sections 3.2 to 3.5 and 5. A reduction over
//! axes of a mesh is synthesised on the [`Hierarchy`] of those axes' factors alone, each level taken for two
//! devices, so the work depends on the number of levels and on nothing else; then it is lowered to groups of ranks
//! of the whole machine, where it can be proved again.
//!
//! | file | holds |
//! | --- | --- |
//! | `hierarchy` | the synthesis hierarchy of a placement and reduction axes |
//! | `state`, `rules` | who has added what to which chunk, and what collectives make of it |
//! | `instruction`, `program` | slice, form and collective; a list of them |
//! | `synthesize` | all programs up to a number of steps |
//! | `lower`, `proof` | groups of ranks, and that they compute the sum |
//! | `simulate`, `choice` | how long a program takes, and which takes least |
//!
//! Programs are plans: nothing here moves data.

mod choice;
mod error;
mod hierarchy;
mod instruction;
mod lower;
mod program;
mod proof;
mod rules;
mod simulate;
mod state;
mod synthesize;

pub use choice::{Options, Ranked, best, best_with};
pub use error::ReduceError;
pub use hierarchy::Hierarchy;
pub use instruction::{Form, Instruction};
pub use lower::{Lowered, LoweredStep};
pub use program::Program;
pub use rules::{Collective, Effect, Violation};
pub use simulate::{Simulation, simulate};
pub use state::Context;
pub use synthesize::{Masters, synthesize};
