//! Programs as data: what is refused, and the bounds on what they move.

mod lower_bounds;
mod refused;
mod tile_statements;
