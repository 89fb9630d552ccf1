//! Moves: from an array to one of another sharding.

use super::Array;
use crate::ids::ArrayId;
use crate::nest::members;
use crate::pattern::Pattern;
use crate::reduction::Reduction;
use crate::shards::largest_shard;
use crate::volume::Volume;
use polyshard_layout::{DType, Sharding, SumKind};
use serde::{Deserialize, Serialize};

/// A move of all elements of one array to another of a different sharding.
///
/// Each rank gets what it owns of the target and not of the source, once; of several owners, from the one whose coordinates
/// are its own along the axes along which the source is replicated. Partial sums that the target does not keep open are
/// closed, in the order of their coordinates or [`by`](Self::by) a reduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The array that it reads.
    pub source: ArrayId,
    /// What each rank hands out of what it holds of the source, if it is not all: what it owns by this sharding.
    pub kept: Option<Sharding>,
    /// The array that it writes.
    pub target: ArrayId,
    /// The route's name.
    pub pattern: Pattern,
    /// How partial results are closed where that is said: in ranks of the mesh, each group along the axes that are closed.
    /// The target lies as the source does but for these.
    pub by: Option<Reduction>,
    /// Where terms meet in groups, and not [`by`](Self::by) a reduction: whether each rank sums up a piece and hands it on, else all get
    /// all terms. The program decides it when it is put together.
    pub in_pieces: Option<bool>,
    /// What led to it, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
}

/// Meshes of more ranks are not gone through one by one.
const COUNTED: usize = 4096;

/// The most bytes that one rank receives by a move between two shardings: counted where ranks are few or the steps are
/// given, else a bound.
fn most_received(source: &Sharding, target: &Sharding, by: Option<&Reduction>, kind: SumKind) -> u64 {
    if let Some(reduction) = by {
        let held = |rank: usize| source.local_len(&source.mesh().coordinates(rank));
        let most = reduction.procedure.received(held).into_iter().max().unwrap_or(0);
        return (most as u64).saturating_mul(kind.element);
    }
    let closed = closed_axes(source, target);
    if closed.is_empty() {
        return most_lacking(source, target, 1).saturating_mul(kind.element);
    }
    let members = members(&closed, source.mesh());
    match closed.iter().any(|&axis| target.places(axis)) {
        // Of its own term, a rank may have what it wants.
        true => most_lacking(source, target, members).saturating_mul(kind.element),
        false => {
            let summed = kind.most_received(largest_shard(source).saturating_mul(kind.element), members);
            let moved = most_lacking(&summed_up(source, target, &closed), target, 1);
            summed.saturating_add(moved.saturating_mul(kind.element))
        }
    }
}

/// The most elements of so many terms that a rank wants and has not.
fn most_lacking(source: &Sharding, target: &Sharding, terms: u64) -> u64 {
    let ranks = source.mesh().size();
    if ranks > COUNTED {
        return terms.saturating_mul(largest_shard(target));
    }
    let lacking = |rank: usize| {
        let [before, after] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
        let wanted = (target.local_len(&after) as u64).saturating_mul(terms);
        wanted - source.common_len(&before, target, &after) as u64
    };
    (0..ranks).map(lacking).max().unwrap_or(0)
}

/// How the sums lie that groups along these axes make: at all members, or at those to which the target pins them.
fn summed_up(source: &Sharding, target: &Sharding, closed: &[usize]) -> Sharding {
    let pins: Vec<_> = target.pins().iter().copied().filter(|(axis, _)| closed.contains(axis)).collect();
    if pins.len() == closed.len() { source.pinned(&pins) } else { source.closed_along(closed) }
}

/// The bytes of messages that a rank packs and unpacks in, at most.
const STAGING: u64 = 2 << 20;

/// The most bytes that a rank holds for a move besides the two arrays, with `element` bytes for each element.
fn most_staged(source: &Sharding, target: &Sharding, by: Option<&Reduction>, element: u64) -> u64 {
    let largest = largest_shard(target);
    match by {
        None => STAGING.min(largest.saturating_mul(element)),
        Some(reduction) => {
            let held = usize::try_from(largest_shard(source)).unwrap_or(usize::MAX);
            (reduction.procedure.most_staged(held) as u64).saturating_mul(element)
        }
    }
}

impl Move {
    /// The move of all of `source` to `target`, which goes by this name.
    #[must_use]
    pub fn new(source: ArrayId, target: ArrayId, pattern: Pattern, tests: Vec<String>) -> Self {
        Self { source, kept: None, target, pattern, by: None, in_pieces: None, tests }
    }

    /// The move of all of `source` to `target`, directly: by one exchange, or by a reduction where sums are closed.
    #[must_use]
    pub fn direct(source: ArrayId, target: ArrayId, shardings: [&Sharding; 2], tests: Vec<String>) -> Self {
        Self::new(source, target, direct_pattern(shardings), tests)
    }

    /// Decides how its sums are closed.
    pub(super) fn decide(&mut self, arrays: &[Array], dtype: DType) {
        let [source, target] = self.shardings(arrays);
        let closed = closed_axes(source, target);
        let bytes = largest_shard(source).saturating_mul(dtype.size() as u64);
        let meet = self.by.is_none() && !closed.is_empty() && closed.iter().all(|&axis| !target.places(axis));
        self.in_pieces = meet.then(|| SumKind::pays_in_pieces(bytes, members(&closed, source.mesh())));
    }

    fn shardings<'a>(&self, arrays: &'a [Array]) -> [&'a Sharding; 2] {
        [self.source, self.target].map(|id| &arrays[id.0].sharding)
    }

    /// What it moves at most.
    pub(crate) fn volume(&self, arrays: &[Array], dtype: DType) -> Volume {
        let [source, target] = self.shardings(arrays);
        let kind = SumKind::new(dtype, self.in_pieces == Some(true));
        let received = most_received(self.kept.as_ref().unwrap_or(source), target, self.by.as_ref(), kind);
        let staged = most_staged(source, target, self.by.as_ref(), kind.element);
        let is_counted = self.by.is_some() || closed_axes(source, target).is_empty() && source.mesh().size() <= COUNTED;
        Volume { times: 1, each: received, received, staged, is_counted }
    }
}

/// The axes along which the sums of the source are closed; none of a move that the check of the program refuses.
fn closed_axes(source: &Sharding, target: &Sharding) -> Vec<usize> {
    source.closed_axes(target).unwrap_or_default()
}

/// The name of the route between two shardings.
fn direct_pattern([source, target]: [&Sharding; 2]) -> Pattern {
    let closed = closed_axes(source, target);
    let axes = source.mesh().names(&closed);
    let pinned = |axis: &usize| target.pins().iter().any(|pin| pin.0 == *axis);
    let is_part = |rank: usize| {
        let [before, after] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
        source.common_len(&before, target, &after) == target.local_len(&after)
    };
    if closed.is_empty() {
        return if source == target { Pattern::Local } else { Pattern::Exchange };
    }
    if closed.iter().any(|&axis| target.places(axis)) {
        // Where a rank wants what it has no term of, each of them goes its way.
        let scatters = (0..source.mesh().size().min(COUNTED)).all(is_part);
        return if scatters { Pattern::ReduceScatter { axes } } else { Pattern::Exchange };
    }
    let sum = if closed.iter().all(pinned) { Pattern::Reduce { axes } } else { Pattern::AllReduce { axes } };
    match summed_up(source, target, &closed) == *target {
        true => sum,
        false => sum.then(Pattern::Exchange),
    }
}
