//! Moves: from an array to one of another sharding. Tests: `program/tests/it/refused.rs`.

use super::Body;
use crate::between::{common_mesh, summed_up};
use crate::expr::Expr;
use crate::ids::{ArrayId, TransferId};
use crate::kernel::Assign;
use crate::nest::{Algorithm, Direction, End, Leg, Owners, Region, Route, Transfer};
use crate::pattern::Pattern;
use crate::received::{Receiver, received};
use crate::reduction::Procedure;
use crate::volume::Volume;
use polyshard_layout::{DType, Neighbours, Sharding, Stages, SumAlgorithm, SumKind};
use std::cell::OnceCell;
use std::ops::Deref;

/// A move of a program: a transfer of all elements of one array to another of a different sharding.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let [rows, columns] = [0, 1].map(|dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, "x")]));
/// let program = Program::redistribution("A", [&rows?, &columns?], DType::F64)?;
/// assert_eq!(program.moves().next().map(|one| one.pattern()), Some(Pattern::Exchange));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MoveView<'a> {
    /// Its number.
    pub id: TransferId,
    /// Its row, to which the view dereferences.
    pub row: &'a Transfer,
    /// The array that it reads.
    pub source: ArrayId,
    /// The array that it writes.
    pub target: ArrayId,
    /// The shardings of both arrays.
    pub shardings: [&'a Sharding; 2],
    /// Their element type.
    pub dtype: DType,
}

impl Deref for MoveView<'_> {
    type Target = Transfer;

    fn deref(&self) -> &Transfer {
        self.row
    }
}

/// On meshes of more ranks, ranks are not examined individually.
const COUNTED: usize = 4096;

/// Maximum bytes that one rank receives by the legs of a route: counted if ranks are few, else a bound.
fn most_received(route: &Route, direction: Direction, [source, target]: [&Sharding; 2], dtype: DType) -> u64 {
    let closed = closed_axes(source, target);
    let by = route.algorithm().map_or(SumAlgorithm::GatherTerms, Algorithm::of_sums);
    let sums = SumKind::new(dtype, by);
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

impl Transfer {
    /// Returns the direct move of all of the first array to the second, in these shardings and of this type: by one exchange or
    /// all-gather, or by a reduction if sums are closed.
    #[must_use]
    pub fn between(ends: [ArrayId; 2], shardings: [&Sharding; 2], dtype: DType, tests: Vec<String>) -> Self {
        let [from, to] = ends.map(End::Array);
        let whole = shardings[0].shape().iter().map(|&extent| [0, extent as i64].map(Expr::constant).into());
        let direction = Direction::between(shardings[0], shardings[1]);
        let route = Route::between(shardings[0], shardings[1], dtype.size());
        Self { route, tests, ..Self::in_place(from, to, direction, Region::of_ranges(whole.collect())) }
    }

    /// Returns the move, called `pattern` if its legs may be called that.
    #[must_use]
    pub fn called(self, shardings: [&Sharding; 2], pattern: Pattern) -> Self {
        let direct = direct_pattern(shardings, &self.route, self.direction);
        let called = (pattern != direct && self.may_be_called(shardings, &pattern)).then_some(pattern);
        Self { called, ..self }
    }

    /// Whether a pattern is another name of a move. An exchange may have the name of any route without sums.
    pub(super) fn may_be_called(&self, shardings: [&Sharding; 2], pattern: &Pattern) -> bool {
        let is_exchanged = self.route.exchange().is_some();
        match pattern {
            _ if self.closes_sums() => false,
            Pattern::Local => is_exchanged && most_received(&self.route, self.direction, shardings, DType::I8) == 0,
            Pattern::Permute
            | Pattern::Exchange
            | Pattern::Broadcast { .. }
            | Pattern::AllGather { .. }
            | Pattern::AllToAll { .. } => is_exchanged,
            _ => false,
        }
    }
}

impl Body {
    /// Returns the moves between arrays, in the order of their numbers.
    pub fn moves(&self) -> impl Iterator<Item = MoveView<'_>> {
        (0..self.transfers.len()).filter_map(|number| self.moved(TransferId(number)))
    }

    /// Returns the number of moves before this one: its number in the table of an engine.
    #[must_use]
    pub fn number_of_move(&self, id: TransferId) -> usize {
        self.transfers[..id.0].iter().filter(|transfer| transfer.kernel().is_none()).count()
    }

    /// Returns the move with this number; none if it is the number of a transfer between an array and a tile.
    ///
    /// # Panics
    /// If there is no such transfer.
    #[must_use]
    pub fn moved(&self, id: TransferId) -> Option<MoveView<'_>> {
        MoveView::new(self, id)
    }
}

impl<'a> MoveView<'a> {
    /// The view of a transfer; none if it is not a move.
    pub(super) fn new(body: &'a Body, id: TransferId) -> Option<Self> {
        let row = &body.transfers[id.0];
        let [source, target] = row.arrays()?;
        let shardings = [source, target].map(|id| &body.arrays[id.0].sharding);
        Some(Self { id, row, source, target, shardings, dtype: body.dtype })
    }

    /// The shardings between which elements move.
    pub(super) fn ends(&self) -> [&'a Sharding; 2] {
        let [source, target] = self.shardings;
        [self.row.kept.as_ref().unwrap_or(source), target]
    }

    /// Returns its pattern.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        let direct = || direct_pattern(self.ends(), &self.route, self.direction);
        self.row.called.clone().unwrap_or_else(direct)
    }

    /// Returns the volume that it moves, at most.
    #[must_use]
    pub fn volume(&self) -> Volume {
        let ([source, target], dtype) = (self.shardings, self.dtype);
        let received = most_received(&self.route, self.direction, self.ends(), dtype);
        // A part of a shard is packed to be gathered.
        let packed = match &self.row.kept {
            Some(kept) if self.route.algorithm().is_some() => kept.largest_shard().saturating_mul(dtype.size() as u64),
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
            Assign::Running(_) => " of records",
        };
        let is_in_pieces = |by: &Algorithm| *by == Algorithm::ReduceScatterGather;
        match self.route.procedure() {
            Some(procedure) => format!("{what} {}", procedure.shown()),
            None if self.route.algorithm().is_some_and(is_in_pieces) => ", each rank a piece".to_owned(),
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
