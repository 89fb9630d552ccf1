//! Shared code of the tests and benchmarks of several packages. It is not published: packages list it as a development
//! dependency only.
//!
//! | module | feature | holds |
//! | --- | --- | --- |
//! | [`start`] | | programs as a user starts them |
//! | [`nodes`] | | nodes to start them on |
//! | `program`, `example` | `program` | programs to compare with, and example kernels |
//! | `filled` | `runtime` | programs that run on threads, on arrays that are filled from their indices |
//! | `planner` | `planner` | random problems for the planner, and the meaning of its answers |
//! | `laws` | `runtime`; for plans that are run `polyshard` | laws that hold for any ranks of a world |
//! | `random` | `polyshard` | random kernels, meshes, sizes and schedules |
//! | `bench` | `runtime`; products need `polyshard` | the benchmarks' command line, measurements and output |
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
#[cfg(feature = "program")]
pub mod example;
#[cfg(feature = "runtime")]
pub mod filled;
#[cfg(feature = "runtime")]
pub mod laws;
pub mod nodes;
#[cfg(feature = "planner")]
pub mod planner;
#[cfg(feature = "program")]
pub mod program;
#[cfg(feature = "polyshard")]
pub mod random;
pub mod start;
#[cfg(feature = "polyshard")]
#[path = "../../dsl/src/tests/transcript.rs"]
mod transcript;
#[cfg(feature = "polyshard")]
pub mod written;
