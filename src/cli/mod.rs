//! The command line, and what of it the examples and the benchmarks read and print alike.
//!
//! Not for use by hand: it is public for the binary, for the programs of this repository and for what feeds it mutated
//! inputs, and may change with any version.

pub mod axes;
#[cfg(feature = "cli")]
pub mod command;
pub mod dtypes;
pub mod error;
pub mod npy;
pub mod numbers;
pub mod say;
pub mod values;
