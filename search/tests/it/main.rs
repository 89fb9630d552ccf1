//! The search for schedules: choices, limits, orders, sequences, and products of placed arrays.

mod choices;
mod limits;
mod machines;
mod orders;
mod product;
mod sequences;
mod short_memory;
