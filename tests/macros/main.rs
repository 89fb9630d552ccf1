//! The macros' output compiles, in a crate that enables every lint, and gives the same results as the methods.
#![deny(warnings, missing_docs, unused)]

pub mod blocks;
pub mod compiled;
pub mod lints;
