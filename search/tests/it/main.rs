//! The search for schedules: choices, limits, orders and sequences.

mod choices;
mod kept;
mod kernels;
mod limits;
mod machines;
mod orders;
mod sequences;
mod short_memory;
