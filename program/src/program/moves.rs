//! Moves: from an array to one of another sharding.

use super::ArrayId;
use crate::shards::largest_shard;
use crate::step::Pattern;
use polyshard_layout::{Sharding, SumKind};

/// A move of all elements of one array to another of a different sharding.
///
/// Each rank gets what it owns of the target and not of the source, once; of several owners, from the one whose coordinates
/// are its own along the axes along which the source is replicated. Partial sums that the target does not keep open are
/// closed, in the order of their coordinates.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The array that it reads.
    pub source: ArrayId,
    /// What each rank hands out of what it holds of the source, if it is not all: what it owns by this sharding.
    pub kept: Option<Sharding>,
    /// The array that it writes.
    pub target: ArrayId,
    /// The route's name.
    pub pattern: Pattern,
    /// What led to it, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
}

/// Meshes of more ranks are not gone through one by one.
const COUNTED: usize = 4096;

/// The most bytes that one rank receives by a move between two shardings: counted where ranks are few, else a bound.
pub(crate) fn most_received(source: &Sharding, target: &Sharding, kind: SumKind) -> u64 {
    let closed: Vec<usize> = source.partial().iter().copied().filter(|axis| !target.partial().contains(axis)).collect();
    let ranks = source.mesh().size();
    if !closed.is_empty() {
        let members = closed.iter().map(|&axis| source.mesh().as_slice()[axis].extent as u64).product::<u64>();
        let scattered = closed.iter().any(|&axis| target.places(axis));
        return match scattered {
            true => (members - 1).saturating_mul(largest_shard(target)).saturating_mul(kind.element),
            false => kind.most_received(largest_shard(source).saturating_mul(kind.element), members),
        };
    }
    if ranks > COUNTED {
        return largest_shard(target).saturating_mul(kind.element);
    }
    let lacking = |rank: usize| {
        let [before, after] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
        (target.local_len(&after) - source.common_len(&before, target, &after)) as u64
    };
    (0..ranks).map(lacking).max().unwrap_or(0).saturating_mul(kind.element)
}

/// The bytes of messages that a rank packs and unpacks in, at most.
pub(crate) const STAGING: u64 = 2 << 20;

impl Move {
    /// The move of all of `source` to `target`, directly: by one exchange, or by a reduction where sums are closed.
    #[must_use]
    pub fn direct(source: ArrayId, target: ArrayId, shardings: [&Sharding; 2], tests: Vec<String>) -> Self {
        Self { source, kept: None, target, pattern: direct_pattern(shardings), tests }
    }
}

/// The name of the route between two shardings.
fn direct_pattern([source, target]: [&Sharding; 2]) -> Pattern {
    let closed: Vec<usize> = source.partial().iter().copied().filter(|axis| !target.partial().contains(axis)).collect();
    let axes = closed.iter().map(|&axis| source.mesh().as_slice()[axis].name).collect();
    let pinned = |axis: &usize| target.pins().iter().any(|pin| pin.0 == *axis);
    if closed.is_empty() {
        let same = source.mesh() == target.mesh() && source.has_same_owners(target);
        return if same { Pattern::Local } else { Pattern::Exchange };
    }
    if closed.iter().any(|&axis| target.places(axis)) {
        Pattern::ReduceScatter { axes }
    } else if closed.iter().all(pinned) {
        Pattern::Reduce { axes }
    } else {
        Pattern::AllReduce { axes }
    }
}
