//! From a program to Rust source.
//!
//! Plain recursion over a [`Program`](polyshard_program::Program), which emits the calls of the runtime that its executor
//! makes, in the same order, so that both give the same bits. Nothing is analysed here: what a program does not say is not
//! done.

mod data;
mod main_program;
mod source;

pub use data::Data;
pub use main_program::rust_main;
pub use source::{SourceOptions, rust_source, scalar_parameters};
