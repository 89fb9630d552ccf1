//! Products of sharded matrices: laws over random problems, the worked answers of the literature, and bad input.

mod answers;
mod laws;
mod placed;
mod refused;
mod replay;
