//! Transfers: the rows of the table of transfers between arrays and tiles.

use super::{Direction, Leg, Region, Route, Shift};
use crate::expr::{Ranges, Symbol};
use crate::ids::{ArrayId, Depth, KernelId, LegId, StepId, is_default};
use crate::kernel::Assign;
use crate::pattern::Pattern;
use polyshard_layout::Sharding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A transfer of a region from one end to the other, where either may be an array or a tile.
///
/// From an array to a tile it is a `communicate` made concrete: an input gets to its reader. From a tile to an array, a computed region of
/// the output gets to its owners. From an array to another one, of another sharding, it is a *move* of all elements. An input of a kernel
/// has one transfer per region that its accesses touch: one for accesses that differ in constants alone.
///
/// In a move, each rank receives the elements that it owns of the target and not of the source, once; if they have several owners, from
/// the one whose coordinates are its own along the axes along which the source is replicated. Partial sums that the target does not keep
/// open are closed, in the order of their coordinates or by a [procedure](Route::procedure).
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// use polyshard::program::{Depth, Direction};
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// let b = program.nest().transfers[1];
/// assert_eq!((b.direction, b.level), (Direction::In, Depth(0))); // once, before the leaf
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The end that it reads.
    pub from: End,
    /// The end that it writes.
    pub to: End,
    /// Its direction: inwards to a reader, outwards to the owners of sums.
    pub direction: Direction,
    /// Of a move, the sharding by which ranks send parts of their shards, if not all: each sends the elements that it owns by this
    /// sharding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Sharding>,
    /// The operation that combines terms at the owners: the kernel's, and `+=` for transfers without terms. Moves by a procedure may have
    /// any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub op: Assign,
    /// The serial loops around it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub level: Depth,
    /// How many iterations of the innermost of these loops lie between its beginning and its end: an input's transfer begins this many
    /// before the iteration that reads it, and an output's ends this many after the iteration that computes it; 0 if both are in the same
    /// iteration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ahead: usize,
    /// Whether the [interior](super::Leaf::interior) of the leaf is computed while it is in flight, and the iterations that read it after
    /// that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interior_first: bool,
    /// The region that it moves.
    pub region: Region,
    /// How it is moved.
    pub route: Route,
    /// The region's buffers on this rank.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tile: Tile,
    /// The pattern by which it is called, if by another than its route's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<Pattern>,
    /// The step of the schedule that it follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// The tests that led to the route, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
    /// Why collectives are carried out as they are, by their legs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub carried_out: BTreeMap<LegId, String>,
}

/// An end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum End {
    /// An array.
    Array(ArrayId),
    /// A tile that the leaf of this kernel reads or writes; those of other kernels may read it as well.
    Tile(KernelId),
}

impl Transfer {
    /// Returns the transfer of this region between `from` and `to` in place, outside of all loops.
    #[must_use]
    pub fn in_place(from: End, to: End, direction: Direction, region: Region) -> Self {
        Self {
            from,
            to,
            direction,
            kept: None,
            op: Assign::Add,
            level: Depth(0),
            ahead: 0,
            interior_first: false,
            region,
            route: Leg::InPlace.into(),
            tile: Tile::default(),
            called: None,
            step: None,
            tests: Vec::new(),
            carried_out: BTreeMap::new(),
        }
    }

    /// Returns the kernel with whose tile it begins or ends; none for a move.
    #[must_use]
    pub fn kernel(&self) -> Option<KernelId> {
        match (self.from, self.to) {
            (End::Tile(kernel), _) | (_, End::Tile(kernel)) => Some(kernel),
            (End::Array(_), End::Array(_)) => None,
        }
    }

    /// Returns the arrays that it moves between, if it is a move: the source and the target.
    #[must_use]
    pub fn arrays(&self) -> Option<[ArrayId; 2]> {
        match (self.from, self.to) {
            (End::Array(source), End::Array(target)) => Some([source, target]),
            _ => None,
        }
    }

    /// Returns whether it closes partial sums.
    #[must_use]
    pub fn closes_sums(&self) -> bool {
        self.direction != Direction::In
    }

    /// Returns whether its tile can keep the fetched region for another leaf, or another run: if it is fetched into a tile that receives
    /// nothing else.
    #[must_use]
    pub fn can_stay(&self) -> bool {
        self.direction == Direction::In && self.level == Depth(0) && !self.route.is_in_place()
    }

    /// The legs between owners and tiles, numbered, each with its region: for the first of two, the region that it leaves in tiles.
    pub(crate) fn at_owners(&self) -> impl Iterator<Item = (LegId, &Leg, &Region)> {
        let Self { route, region, .. } = self;
        let held = |nth: usize| route.held.as_ref().filter(|_| nth == 0);
        route.at_owners().iter().enumerate().map(move |(nth, leg)| (LegId(nth), leg, held(nth).unwrap_or(region)))
    }

    /// The legs, those at the owners first, each with its region and the serial loops that the region may depend on.
    pub(crate) fn legs_in_place(&self, ranges: &Ranges) -> impl Iterator<Item = (&Leg, Region, Depth)> {
        let shift = self.route.shift();
        let at_owners = self.at_owners().map(move |(_, leg, region)| match shift {
            None => (leg, region.clone(), self.level),
            Some(Shift { counter, .. }) => {
                let value = self.iteration_at_owners(ranges.counters[counter.0]);
                (leg, region.fixed(Symbol::Counter(counter), value, ranges), Depth(self.level.0 - 1))
            }
        });
        let shifted = self.route.legs[self.route.at_owners().len()..].iter();
        at_owners.chain(shifted.map(|leg| (leg, self.region.clone(), self.level)))
    }

    /// The iteration of a shift's loop, of `iterations`, in which its tile is fetched from the owners or sent to them: the first for an
    /// input, the last for an output.
    pub(crate) fn iteration_at_owners(&self, iterations: i64) -> i64 {
        match self.direction {
            Direction::In => 0,
            Direction::Out { .. } => iterations - 1,
        }
    }
}

/// The buffers of a transfer's region on a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tile {
    /// Elements of one buffer; 0 if the leaf reads or writes the shard.
    pub capacity: usize,
    /// Its buffers.
    pub buffers: Buffers,
    /// Whether its region is the same in all iterations, so that the messages of an exchange are planned once.
    pub is_fixed: bool,
    /// Whether the rank's own part of a halo's region is read in place, not copied into the tile.
    pub own_in_place: bool,
}

/// The buffers of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Buffers {
    /// None: the leaf reads or writes the rank's shard.
    #[default]
    Shard,
    /// One.
    One,
    /// Two in turns: one is forwarded while the other receives.
    Relay,
    /// One more than this in turns: one is read while the others receive for the next iterations, or written while the others are sent.
    Ahead(usize),
}

impl Buffers {
    /// Returns the number of buffers.
    #[must_use]
    pub fn count(self) -> u64 {
        match self {
            Self::Shard => 0,
            Self::One => 1,
            Self::Relay => 2,
            Self::Ahead(depth) => depth as u64 + 1,
        }
    }
}
