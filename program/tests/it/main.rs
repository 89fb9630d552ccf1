//! Programs as data: which ones are refused, and bounds on the elements that they move.

mod lower_bounds;
mod refused;
mod tile_statements;
