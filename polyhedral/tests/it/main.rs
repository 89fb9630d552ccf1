//! What schedules lower to: blocks, routes, patterns, sums, and hints on slow ones.

mod blocks;
mod compose;
mod hints;
mod interior;
mod patterns;
mod reach;
mod sums;
