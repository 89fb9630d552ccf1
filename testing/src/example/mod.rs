//! What the examples share: flags, what is said of a run, and how far an answer may be from the sequential one.
//!
//! Kernel, schedule, arrays, run and check of an algorithm are in the example itself.

pub mod check;
mod files;
pub mod launch;
pub mod mesh;
mod options;
pub mod progress;
pub mod room;
pub mod run;
pub mod size;

pub use check::check;
pub use files::Files;
pub use launch::{Stop, main};
pub use mesh::balanced;
pub use options::{Options, Print};
pub use polyshard::cli::dtypes::with_type;
pub use polyshard::cli::values::Number;
pub use run::flops;
pub use size::{Size, parse_size};
