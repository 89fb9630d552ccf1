//! The command line of Polyshard, as a library for the binary and for what feeds it mutated inputs.
//!
//! Not for use by hand: it may change with any version.

mod axes;
pub mod command;
mod dtypes;
pub mod error;
mod numbers;
mod progress;
mod say;
mod snippets;
