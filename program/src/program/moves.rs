//! Moves: from an array to one of another sharding.

use super::Array;
use crate::ids::ArrayId;
use crate::pattern::Pattern;
use crate::reduction::MoveReduction;
use crate::volume::Volume;
use crate::way::{Way, summed_up};
use polyshard_layout::{DType, Mesh, Sharding, SumKind};
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
    /// How ranks carry it out.
    pub by: MoveBy,
    /// What led to it, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
}

/// How a move is carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MoveBy {
    /// Elements go this way, and sums are closed on it.
    Way(Way),
    /// A reduction closes sums where the elements are: in ranks of the mesh, each group along the axes that are closed.
    /// The target lies as the source does but for these.
    Reduction(MoveReduction),
}

/// Meshes of more ranks are not gone through one by one.
const COUNTED: usize = 4096;

/// The most bytes that one rank receives by a move that goes this way: counted where ranks are few, else a bound.
fn most_received(source: &Sharding, target: &Sharding, way: Way, dtype: DType) -> u64 {
    let element = dtype.size() as u64;
    let closed = closed_axes(source, target);
    let members = source.mesh().group_size(&closed);
    match way {
        Way::Pairs(_) | Way::Gathered => most_lacking(source, target, 1).saturating_mul(element),
        // Of its own term, a rank may have what it wants.
        Way::Parts | Way::Layers(_) => most_lacking(source, target, members).saturating_mul(element),
        Way::Groups { in_pieces, .. } => {
            let kind = SumKind::new(dtype, in_pieces);
            let summed = kind.most_received(source.largest_shard().saturating_mul(element), members);
            let moved = most_lacking(&summed_up(source, target, &closed), target, 1);
            summed.saturating_add(moved.saturating_mul(element))
        }
    }
}

/// The most elements, of `terms` terms each, that a rank wants and has not.
fn most_lacking(source: &Sharding, target: &Sharding, terms: u64) -> u64 {
    let ranks = source.mesh().size();
    if ranks > COUNTED {
        return terms.saturating_mul(target.largest_shard());
    }
    let lacking = |rank: usize| {
        let [before, after] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
        let wanted = (target.local_len(&after) as u64).saturating_mul(terms);
        wanted - source.common_len(&before, target, &after) as u64
    };
    (0..ranks).map(lacking).max().unwrap_or(0)
}

impl Move {
    /// The move of all of `source` to `target`, which lie so and are of this type, under the name of its route, if that may be called so.
    #[must_use]
    pub fn new(
        ends: [ArrayId; 2],
        shardings: [&Sharding; 2],
        dtype: DType,
        pattern: Pattern,
        tests: Vec<String>,
    ) -> Self {
        let way = Way::between(shardings[0], shardings[1], dtype.size());
        let moved = Self::going(ends, way, pattern, tests);
        match moved.called_otherwise(shardings, way) {
            Some(pattern) => Self { pattern, ..moved },
            None => moved,
        }
    }

    /// The move of all of `source` to `target`, directly: by one exchange, or by a reduction where sums are closed.
    #[must_use]
    pub fn direct(ends: [ArrayId; 2], shardings: [&Sharding; 2], dtype: DType, tests: Vec<String>) -> Self {
        let way = Way::between(shardings[0], shardings[1], dtype.size());
        Self::going(ends, way, direct_pattern(shardings, way), tests)
    }

    fn going([source, target]: [ArrayId; 2], way: Way, pattern: Pattern, tests: Vec<String>) -> Self {
        Self { source, kept: None, target, pattern, by: MoveBy::Way(way), tests }
    }

    /// What it is, if what it is called is something else. What goes in pairs may have the name of any
    /// route without sums.
    pub(super) fn called_otherwise(&self, shardings: [&Sharding; 2], way: Way) -> Option<Pattern> {
        let is_so = match (&self.pattern, way) {
            (Pattern::Local, Way::Pairs(_)) => most_lacking(shardings[0], shardings[1], 1) == 0,
            (
                Pattern::Permute | Pattern::Exchange | Pattern::Broadcast { .. } | Pattern::AllToAll { .. },
                Way::Pairs(_),
            )
            | (Pattern::AllGather { .. }, Way::Pairs(_) | Way::Gathered) => true,
            (pattern, _) => *pattern == direct_pattern(shardings, way),
        };
        (!is_so).then(|| direct_pattern(shardings, way))
    }

    /// The reduction that carries it out, if one does.
    #[must_use]
    pub fn reduction(&self) -> Option<&MoveReduction> {
        match &self.by {
            MoveBy::Reduction(reduction) => Some(reduction),
            MoveBy::Way(_) => None,
        }
    }

    fn shardings<'a>(&self, arrays: &'a [Array]) -> [&'a Sharding; 2] {
        [self.source, self.target].map(|id| &arrays[id.0].sharding)
    }

    /// What it moves at most.
    pub(crate) fn volume(&self, arrays: &[Array], dtype: DType) -> Volume {
        let [source, target] = self.shardings(arrays);
        let (received, staged, is_counted) = match &self.by {
            MoveBy::Way(way) => {
                let received = most_received(self.kept.as_ref().unwrap_or(source), target, *way, dtype);
                let is_counted = !way.closes_sums() && source.mesh().size() <= COUNTED;
                let packed = match (&self.kept, way) {
                    (Some(kept), Way::Gathered) => kept.largest_shard().saturating_mul(dtype.size() as u64),
                    _ => 0,
                };
                (received, way.staged(source, target, dtype.size()).saturating_add(packed), is_counted)
            }
            MoveBy::Reduction(MoveReduction { procedure, .. }) => {
                let held = |rank: usize| source.local_len(&source.mesh().coordinates(rank));
                let received = procedure.received(held).into_iter().max().unwrap_or(0);
                let staged = procedure.most_staged(usize::try_from(source.largest_shard()).unwrap_or(usize::MAX));
                let [received, staged] =
                    [received, staged].map(|elements| (elements as u64).saturating_mul(dtype.size() as u64));
                (received, staged, true)
            }
        };
        Volume { times: 1, busy: u64::from(received > 0), each: received, received, staged, is_counted }
    }
}

/// The axes along which the sums of the source are closed; none of a move that the check of the program refuses.
fn closed_axes(source: &Sharding, target: &Sharding) -> Vec<usize> {
    source.closed_axes(target).unwrap_or_default()
}

/// The axes along which the members of groups differ.
fn differing(mesh: &Mesh, groups: &[Vec<usize>]) -> Vec<usize> {
    let at = |rank: usize, axis: usize| mesh.coordinates(rank)[axis];
    let differ = |group: &Vec<usize>, axis: usize| group.iter().any(|&rank| at(rank, axis) != at(group[0], axis));
    (0..mesh.ndim()).filter(|&axis| groups.iter().any(|group| differ(group, axis))).collect()
}

/// The name of the way between two shardings.
fn direct_pattern([source, target]: [&Sharding; 2], way: Way) -> Pattern {
    let closed = closed_axes(source, target);
    let mesh = source.mesh();
    let axes = mesh.names(&closed);
    let pinned = |axis: &usize| target.pins().iter().any(|pin| pin.0 == *axis);
    match way {
        Way::Pairs(_) if source == target => Pattern::Local,
        Way::Pairs(_) | Way::Layers(_) => Pattern::Exchange,
        Way::Gathered => Pattern::AllGather {
            axes: mesh.names(&differing(mesh, &source.gathered_groups(target).unwrap_or_default())),
        },
        Way::Parts => Pattern::ReduceScatter { axes },
        Way::Groups { .. } => {
            let sum = if closed.iter().all(pinned) { Pattern::Reduce { axes } } else { Pattern::AllReduce { axes } };
            if summed_up(source, target, &closed) == *target { sum } else { sum.then(Pattern::Exchange) }
        }
    }
}
