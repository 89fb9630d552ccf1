//! How much of an array one rank owns.

use polyshard_layout::Sharding;

/// Returns the most elements that one rank owns.
#[must_use]
pub fn largest_shard(sharding: &Sharding) -> u64 {
    sharding.largest_shard()
}
