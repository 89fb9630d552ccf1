//! What schedules lower to: blocks, routes, patterns, sums, and hints on slow ones.

mod blocks;
mod compose;
mod hints;
mod interior;
mod patterns;
mod reach;
mod sums;

fn lowered(schedule: &polyshard_polyhedral::Schedule) -> polyshard_program::Program {
    schedule.lower().unwrap_or_else(|error| panic!("{error}\n{schedule}"))
}
