//! Moves: from an array to one of another sharding.

use super::Array;
use crate::between::{common_mesh, summed_up};
use crate::expr::Expr;
use crate::ids::ArrayId;
use crate::kernel::Assign;
use crate::nest::{Algorithm, Direction, Leg, Owners, Route};
use crate::pattern::Pattern;
use crate::received::{Receiver, received};
use crate::reduction::Procedure;
use crate::volume::Volume;
use polyshard_layout::{DType, Neighbours, Sharding, Stages, SumAlgorithm, SumKind};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;

/// A move of all elements of one array to another of a different sharding.
///
/// Each rank receives the elements that it owns of the target and not of the source, once; if they have several owners, from the one
/// whose coordinates are its own along the axes along which the source is replicated. Partial sums that the target does not keep open are
/// closed, in the order of their coordinates or by a [procedure](Route::procedure).
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let [rows, columns] = [0, 1].map(|dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, "x")]));
/// let program = Program::redistribution("A", [&rows?, &columns?], DType::F64)?;
/// assert_eq!(program.moves().next().map(|one| &one.pattern), Some(&Pattern::Exchange));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The array that it reads.
    pub source: ArrayId,
    /// The sharding by which ranks send parts of their source shards, if not all: each sends the elements that it owns by this sharding.
    pub kept: Option<Sharding>,
    /// The array that it writes.
    pub target: ArrayId,
    /// The operation that combines terms: `+=`, or any other by a procedure.
    pub op: Assign,
    /// Outwards if it closes sums.
    pub direction: Direction,
    /// How ranks carry it out. If a procedure closes sums, in ranks of the mesh, the target has the source's sharding except for these
    /// sums.
    pub route: Route,
    /// The route's name.
    pub pattern: Pattern,
    /// The reasons for it, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
}

/// On meshes of more ranks, ranks are not examined individually.
const COUNTED: usize = 4096;

/// Maximum bytes that one rank receives by the legs of a route: counted if ranks are few, else a bound.
fn most_received(route: &Route, direction: Direction, [source, target]: [&Sharding; 2], dtype: DType) -> u64 {
    let closed = closed_axes(source, target);
    let by = route.legs.iter().find_map(|leg| match leg {
        Leg::Collective { by, .. } => Some(by.of_sums()),
        _ => None,
    });
    let sums = SumKind::new(dtype, by.unwrap_or(SumAlgorithm::GatherTerms));
    let first = direction;
    let by_procedure = OnceCell::new();
    let summed = summed_up(source, target, &closed);
    let of_leg = |(leg, direction): (&Leg, Direction)| {
        let of = |rank: Option<usize>| {
            // Sums are complete before they move on.
            let source = if direction == first { source } else { &summed };
            let (closed, by_procedure) = (&closed, &by_procedure);
            received(leg, direction, &Between { source, target, direction, rank, sums, closed, by_procedure })
        };
        let ranks = source.mesh().size();
        if ranks > COUNTED { of(None) } else { (0..ranks).map(Some).map(of).max().unwrap_or(0) }
    };
    route.taken(direction).into_iter().map(of_leg).fold(0, u64::saturating_add)
}

/// A rank that takes part in a move: its tile is its shard of the target, or, for sums, of the source.
struct Between<'a> {
    source: &'a Sharding,
    target: &'a Sharding,
    direction: Direction,
    /// The rank; if none, one with the largest shards.
    rank: Option<usize>,
    sums: SumKind,
    /// The axes along which sums are closed.
    closed: &'a [usize],
    /// The elements that ranks receive by a procedure.
    by_procedure: &'a OnceCell<Vec<usize>>,
}

impl Between<'_> {
    /// The bytes that the rank has in a sharding.
    fn held(&self, sharding: &Sharding) -> u64 {
        let elements = match self.rank {
            Some(rank) => sharding.local_len(&sharding.mesh().coordinates(rank)) as u64,
            None => sharding.largest_shard(),
        };
        elements.saturating_mul(self.sums.element)
    }

    /// The bytes of this many terms of the rank's target shard, except the elements that it has itself.
    fn lacking_of(&self, terms: u64) -> u64 {
        let own = self.rank.map_or(0, |rank| {
            let [before, after] = [self.source, self.target].map(|sharding| sharding.mesh().coordinates(rank));
            self.source.common_len(&before, self.target, &after) as u64
        });
        self.held(self.target).saturating_mul(terms) - own.saturating_mul(self.sums.element)
    }
}

impl Receiver for Between<'_> {
    fn whole(&self) -> u64 {
        self.held(if self.direction == Direction::In { self.target } else { self.source })
    }

    /// No array is moved from one rank alone.
    fn is_at(&self, _: Option<&[usize]>, _: &[Expr]) -> bool {
        false
    }

    fn lacking(&self, _: &Neighbours) -> u64 {
        self.lacking_of(1)
    }

    fn gathered(&self, _: &[usize]) -> u64 {
        self.lacking_of(1)
    }

    fn terms_of_part(&self, axes: &[usize]) -> u64 {
        // A rank may already have the elements that it wants of its own term.
        self.lacking_of(self.source.mesh().group_size(axes))
    }

    fn sums(&self, axes: &[usize], _: Option<&[Expr]>) -> u64 {
        self.sums.most_received(self.whole(), self.source.mesh().group_size(axes))
    }

    fn sums_in_stages(&self, axes: &[usize], _: &Owners, _: &Stages) -> u64 {
        self.sums(axes, None)
    }

    fn sums_by(&self, procedure: &Procedure) -> u64 {
        let held = |rank: usize| self.source.local_len(&self.source.mesh().coordinates(rank));
        let received = self.by_procedure.get_or_init(|| procedure.received(held));
        let elements = match self.rank {
            Some(rank) => received.get(rank).copied(),
            None => received.iter().copied().max(),
        };
        (elements.unwrap_or(0) as u64).saturating_mul(self.sums.element)
    }

    fn written_by_one(&self, _: &[Expr], _: &[Expr]) -> u64 {
        self.whole()
    }

    fn written_by_others(&self, _: &Neighbours) -> u64 {
        self.lacking_of(self.source.mesh().group_size(self.closed))
    }
}

impl Move {
    /// The move of all of `source` to `target`, in these shardings and of this type, called `pattern` if its legs may be called that.
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

    /// The direct move of all of `source` to `target`: by one exchange or all-gather, or by a reduction if sums are closed.
    #[must_use]
    pub fn direct([source, target]: [ArrayId; 2], shardings: [&Sharding; 2], dtype: DType, tests: Vec<String>) -> Self {
        let route = Route::between(shardings[0], shardings[1], dtype.size());
        let direction = Direction::between(shardings[0], shardings[1]);
        let pattern = direct_pattern(shardings, &route, direction);
        Self { source, kept: None, target, op: Assign::Add, direction, route, pattern, tests }
    }

    /// Its pattern, if it is called something else. An exchange may have the name of any route without sums.
    pub(super) fn called_otherwise(&self, shardings: [&Sharding; 2]) -> Option<Pattern> {
        let is_exchanged = matches!(self.route.legs[..], [Leg::Exchange { .. }]);
        let is_so = match &self.pattern {
            _ if self.closes_sums() => false,
            Pattern::Local => is_exchanged && most_received(&self.route, self.direction, shardings, DType::I8) == 0,
            Pattern::Permute
            | Pattern::Exchange
            | Pattern::Broadcast { .. }
            | Pattern::AllGather { .. }
            | Pattern::AllToAll { .. } => is_exchanged,
            _ => false,
        };
        let direct = direct_pattern(shardings, &self.route, self.direction);
        (!is_so && self.pattern != direct).then_some(direct)
    }

    /// Returns whether it closes partial sums.
    #[must_use]
    pub fn closes_sums(&self) -> bool {
        self.direction != Direction::In
    }

    fn shardings<'a>(&self, arrays: &'a [Array]) -> [&'a Sharding; 2] {
        [self.source, self.target].map(|id| &arrays[id.0].sharding)
    }

    /// The volume that it moves, at most.
    pub(crate) fn volume(&self, arrays: &[Array], dtype: DType) -> Volume {
        let [source, target] = self.shardings(arrays);
        let from = self.kept.as_ref().unwrap_or(source);
        let received = most_received(&self.route, self.direction, [from, target], dtype);
        // A part of a shard is packed to be gathered.
        let packed = match (&self.kept, &self.route.legs[..]) {
            (Some(kept), [Leg::Collective { .. }]) => kept.largest_shard().saturating_mul(dtype.size() as u64),
            _ => 0,
        };
        let staged = self.route.staged_between(source, target, dtype.size()).saturating_add(packed);
        let is_counted = self.route.procedure().is_some() || !self.closes_sums() && source.mesh().size() <= COUNTED;
        Volume { times: 1, busy: u64::from(received > 0), each: received, received, staged, is_counted }
    }

    /// How its sums are closed, as printed after its pattern: `of maxima by AllReduce`, or `each rank a piece`.
    pub(super) fn shown_sums(&self) -> String {
        let what = match self.op {
            Assign::Set | Assign::Add => "",
            Assign::Mul => " of products",
            Assign::Max => " of maxima",
            Assign::Min => " of minima",
        };
        let is_in_pieces = |leg: &Leg| matches!(leg, Leg::Collective { by: Algorithm::ReduceScatterGather, .. });
        match self.route.procedure() {
            Some(procedure) => format!("{what} {}", procedure.shown()),
            None if self.route.legs.iter().any(is_in_pieces) => ", each rank a piece".to_owned(),
            None => String::new(),
        }
    }
}

/// The axes along which the sums of the source are closed; none for a move that the check of the program refuses.
fn closed_axes(source: &Sharding, target: &Sharding) -> Vec<usize> {
    source.closed_axes(target).unwrap_or_default()
}

/// The name of the route between two shardings.
fn direct_pattern([source, target]: [&Sharding; 2], route: &Route, direction: Direction) -> Pattern {
    if source == target { Pattern::Local } else { route.pattern_between(direction, &common_mesh(source, target)) }
}
