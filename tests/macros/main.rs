//! The macros' output compiles, in a crate that enables every lint, and gives the same results as the methods.
#![deny(warnings, missing_docs, unused)]

pub mod compiled;
pub mod lints;
