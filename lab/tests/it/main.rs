//! Machines that are measured.

mod machines;
mod nodes;
