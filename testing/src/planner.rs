//! Random problems for the planner, and the meaning of its answers.

pub mod calibration;
pub mod machines;
pub mod problems;
pub mod steps;
pub mod sums;
