//! Random problems for the planner, and what its answers mean.

pub mod machines;
pub mod problems;
pub mod steps;
pub mod sums;
