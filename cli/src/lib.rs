//! The command line of Polyshard as a library, for its binary and the fuzzer.
//!
//! Not a public interface: it may change with any version.

mod axes;
pub mod command;
mod dtypes;
pub mod error;
pub mod notation;
mod numbers;
mod progress;
mod say;
mod snippets;

pub use polyshard::layout::with_type;
