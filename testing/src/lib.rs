//! What tests and benchmarks of several packages share. It is not published: packages name it among what they
//! need for their own development, and nowhere else.
//!
//! | module | feature | holds |
//! | --- | --- | --- |
//! | [`start`] | | programs as a user starts them |
//! | [`nodes`] | | nodes to start them on |
//! | `planner` | `planner` | random problems for the planner, and what its answers mean |
//! | `laws` | `runtime`; of plans that are run `polyshard` | what holds for whatever the ranks of a world are |
//! | `random` | `polyshard` | random kernels, meshes, sizes and schedules |
//! | `bench` | `runtime`; products need `polyshard` | the command line of benchmarks, what they measure by and how they say it |
//! | `command_line` | `polyshard` | the command line as a user runs it |
//! | `written` | `polyshard` | programs as files |
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "what fails a test panics, and errors are those of what is tested"
)]

#[cfg(feature = "runtime")]
pub mod bench;
#[cfg(feature = "polyshard")]
pub mod command_line;
#[cfg(feature = "runtime")]
pub mod laws;
pub mod nodes;
#[cfg(feature = "planner")]
pub mod planner;
#[cfg(feature = "polyshard")]
pub mod random;
pub mod start;
#[cfg(feature = "polyshard")]
pub mod written;
