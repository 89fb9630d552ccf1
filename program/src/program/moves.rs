//! Moves: from an array to one of another sharding.

use super::Array;
use crate::ids::ArrayId;
use crate::kernel::Assign;
use crate::nest::{CollectiveBy, Leg, Owners};
use crate::pattern::Pattern;
use crate::volume::Volume;
use crate::way::{Way, summed_up};
use polyshard_layout::{DType, Sharding, SumKind};
use serde::{Deserialize, Serialize};

/// A move of all elements of one array to another of a different sharding.
///
/// Each rank gets what it owns of the target and not of the source, once; of several owners, from the one whose coordinates
/// are its own along the axes along which the source is replicated. Partial sums that the target does not keep open are
/// closed, in the order of their coordinates or by a [procedure](Way::procedure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The array that it reads.
    pub source: ArrayId,
    /// What each rank hands out of what it holds of the source, if it is not all: what it owns by this sharding.
    pub kept: Option<Sharding>,
    /// The array that it writes.
    pub target: ArrayId,
    /// What combines terms that meet: `+=`, or anything else by a procedure.
    pub op: Assign,
    /// How ranks carry it out. Where a procedure closes sums, in ranks of the mesh, the target lies as the source does but for these.
    pub way: Way,
    /// The route's name.
    pub pattern: Pattern,
    /// What led to it, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
}

/// Meshes of more ranks are not gone through one by one.
const COUNTED: usize = 4096;

/// The most bytes that one rank receives by a leg of a way: counted where ranks are few, else a bound.
fn most_received(leg: &Leg, way: &Way, [source, target]: [&Sharding; 2], dtype: DType) -> u64 {
    let element = dtype.size() as u64;
    let closed = closed_axes(source, target);
    let members = source.mesh().group_size(&closed);
    match leg {
        Leg::Collective { by: Some(CollectiveBy::Procedure(procedure)), .. } => {
            let held = |rank: usize| source.local_len(&source.mesh().coordinates(rank));
            let received = procedure.received(held).into_iter().max().unwrap_or(0);
            (received as u64).saturating_mul(element)
        }
        Leg::Collective { owners: Owners::One(_) | Owners::All, .. } => {
            let kind = SumKind::new(dtype, way.in_pieces);
            kind.most_received(source.largest_shard().saturating_mul(element), members)
        }
        // Of its own term, a rank may have what it wants.
        _ if way.legs.len() == 1 => most_lacking(source, target, members).saturating_mul(element),
        _ => most_lacking(&summed_up(source, target, &closed), target, 1).saturating_mul(element),
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
        let moved = Self { pattern, ..Self::direct(ends, shardings, dtype, tests) };
        match moved.called_otherwise(shardings) {
            Some(pattern) => Self { pattern, ..moved },
            None => moved,
        }
    }

    /// The move of all of `source` to `target`, directly: by one exchange, or by a reduction where sums are closed.
    #[must_use]
    pub fn direct([source, target]: [ArrayId; 2], shardings: [&Sharding; 2], dtype: DType, tests: Vec<String>) -> Self {
        let way = Way::between(shardings[0], shardings[1], dtype.size());
        let pattern = direct_pattern(shardings, &way);
        Self { source, kept: None, target, op: Assign::Add, way, pattern, tests }
    }

    /// What it is, if what it is called is something else. What is exchanged may have the name of any route without sums.
    pub(super) fn called_otherwise(&self, shardings: [&Sharding; 2]) -> Option<Pattern> {
        let is_exchanged = matches!(self.way.legs[..], [Leg::Exchange { .. }]);
        let is_so = match &self.pattern {
            _ if self.way.closes_sums() => false,
            Pattern::Local => is_exchanged && most_lacking(shardings[0], shardings[1], 1) == 0,
            Pattern::Permute
            | Pattern::Exchange
            | Pattern::Broadcast { .. }
            | Pattern::AllGather { .. }
            | Pattern::AllToAll { .. } => is_exchanged,
            _ => false,
        };
        let direct = direct_pattern(shardings, &self.way);
        (!is_so && self.pattern != direct).then_some(direct)
    }

    fn shardings<'a>(&self, arrays: &'a [Array]) -> [&'a Sharding; 2] {
        [self.source, self.target].map(|id| &arrays[id.0].sharding)
    }

    /// What it moves at most.
    pub(crate) fn volume(&self, arrays: &[Array], dtype: DType) -> Volume {
        let [source, target] = self.shardings(arrays);
        let from = self.kept.as_ref().unwrap_or(source);
        let received = |leg: &Leg| most_received(leg, &self.way, [from, target], dtype);
        let received = self.way.legs.iter().map(received).fold(0, u64::saturating_add);
        // A part of a shard is packed to be gathered.
        let packed = match (&self.kept, &self.way.legs[..]) {
            (Some(kept), [Leg::Collective { .. }]) => kept.largest_shard().saturating_mul(dtype.size() as u64),
            _ => 0,
        };
        let staged = self.way.staged(source, target, dtype.size()).saturating_add(packed);
        let is_counted = self.way.procedure().is_some() || !self.way.closes_sums() && source.mesh().size() <= COUNTED;
        Volume { times: 1, busy: u64::from(received > 0), each: received, received, staged, is_counted }
    }

    /// How its sums are closed, as a page has it behind its pattern: `of maxima by AllReduce`, or `each rank a piece`.
    pub(super) fn shown_sums(&self) -> String {
        let what = match self.op {
            Assign::Set | Assign::Add => "",
            Assign::Mul => " of products",
            Assign::Max => " of maxima",
            Assign::Min => " of minima",
        };
        match self.way.procedure() {
            Some(procedure) => format!("{what} {}", procedure.shown()),
            None if self.way.in_pieces => ", each rank a piece".to_owned(),
            None => String::new(),
        }
    }
}

/// The axes along which the sums of the source are closed; none of a move that the check of the program refuses.
fn closed_axes(source: &Sharding, target: &Sharding) -> Vec<usize> {
    source.closed_axes(target).unwrap_or_default()
}

/// The name of the way between two shardings.
fn direct_pattern([source, target]: [&Sharding; 2], way: &Way) -> Pattern {
    if source == target { Pattern::Local } else { way.pattern(&Way::mesh(source, target)) }
}
