//! What the macros write compiles, in a crate that asks for every lint, and gives what the methods give.
#![deny(warnings, missing_docs, unused)]

pub mod compiled;
pub mod lints;
