//! How much of an array one rank owns.

use polyshard_layout::Sharding;

/// Returns the most elements that one rank owns.
#[must_use]
pub fn largest_shard(sharding: &Sharding) -> u64 {
    let dims = sharding.dims().iter().zip(sharding.shape());
    dims.map(|(layout, &extent)| layout.max_owned(extent) as u64).fold(1, u64::saturating_mul)
}
