//! Routes: how a region gets from its owners to the rank that reads it, or from the rank that writes it to its owners.
//!
//! An output's route is that of an input of the same region and sharding, run backwards, so one vocabulary serves both
//! directions:
//!
//! | leg | in: to a reader | out: from a writer |
//! | --- | --- | --- |
//! | `InPlace` | the leaf reads the shard | the leaf writes the shard |
//! | `Copy` | gathered from the rank's own shard | combined into the rank's own shard |
//! | `Collective`, one owner | broadcast | reduce |
//! | `Collective`, all own it | (nothing is sent) | all-reduce |
//! | `Collective`, each owns a part | all-gather | reduce-scatter |
//! | `Shift` | the neighbour's last tile | the sums travel |
//! | `Permute` | from one rank | to one rank |
//! | `Halo` | neighbours' parts | to neighbours |
//! | `Exchange` | all parts | to all owners |
//!
//! Tests: `polyhedral/tests/it/patterns.rs`.

use super::Region;
use crate::expr::Expr;
use crate::ids::{Axes, AxisId, CounterId, LegId, is_default};
use crate::pattern::Pattern;
use crate::reduction::Procedure;
use polyshard_layout::{Mesh, Neighbours, Reach, Stages, Stencil, SumAlgorithm};
use serde::{Deserialize, Serialize};

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the owners of an input to the ranks that read it.
    In,
    /// From the ranks that compute an output to its owners, which combine the values that they receive.
    Out {
        /// Whether the communication library chooses the order in which collectives add up partial sums, else it is that of
        /// the ranks, or of the [procedure](Algorithm::Procedure).
        any_order: bool,
    },
}

/// How a region gets from its owners to a rank, or backwards: a sequence of legs, the first one at the owners.
///
/// `C` is what coordinates of ranks are, and `R` what regions are: expressions in programs, functions where transfers are carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route<C = Vec<Expr>, R = Region> {
    /// One leg, or two of which the second forwards the tiles of the first; then perhaps a shift, which replaces the others in all
    /// iterations but the one next to the owners: the first of an input, the last of an output.
    pub legs: Vec<Leg<C>>,
    /// The region that the first of two legs leaves in tiles; empty on ranks that forward nothing.
    pub held: Option<R>,
}

/// A part of a [`Route`].
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// use polyshard::program::{Leg, Owners};
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// let nest = program.nest();
/// let legs: Vec<_> = nest.transfers.iter().flat_map(|transfer| &transfer.route.legs).collect();
/// // A and C stay where they are, and each rank owns a part of B, which all need.
/// assert!(matches!(legs[..], [Leg::InPlace, Leg::Collective { owners: Owners::Parts, .. }, Leg::InPlace]));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Leg<C = Vec<Expr>> {
    /// The region is in the rank's own shard, and the leaf reads or writes it in place.
    InPlace,
    /// The rank owns the region, but block-cyclic: it is copied between its own shard and the tile.
    Copy,
    /// Between the tiles of all ranks that differ along some axes, and the shards of those that own the region.
    Collective {
        /// The axes.
        axes: Axes,
        /// Which of these ranks own the region.
        owners: Owners<C>,
        /// How it is carried out.
        #[serde(default, skip_serializing_if = "is_default")]
        by: Algorithm,
    },
    /// From the tile that a neighbour had in the previous iteration.
    Shift(Shift),
    /// With one rank in each direction.
    Permute {
        /// The coordinates of the rank that owns this rank's region.
        owner: C,
        /// The coordinates of the rank whose region this rank owns.
        served: C,
    },
    /// With neighbours, which own the part of the region that the rank does not own.
    ///
    /// Parts of an input's region on ranks that a star leaves out are not fetched, and no leaf reads them.
    Halo {
        /// The offsets of owners, relative to the rank that reads or writes.
        reach: Neighbours,
    },
    /// With each owner, the intersection of its shard and the region that the rank reads or writes.
    Exchange {
        /// The offsets of owners, relative to the rank that reads or writes; as for a halo.
        reach: Neighbours,
        /// How rows of arrays that are not contiguous are sent.
        #[serde(default, skip_serializing_if = "is_default")]
        packing: Packing,
    },
}

/// How a collective is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// By one call of the communication library, which adds up terms in any order.
    #[default]
    Library,
    /// By messages from each owner to all members, which may be in flight during computation.
    Direct,
    /// Each member forwards what one of them owns to the next, in this many segments.
    Chain(usize),
    /// What one member owns is broadcast in the minimum number of rounds, in this many segments (J. L. Träff, "Fast(er) construction of
    /// round-optimal n-block broadcast schedules", 2022).
    Circulant(usize),
    /// Each member that owns a part broadcasts it.
    EachPart,
    /// Each member that wants sums receives all terms of them, and adds them up in rank order.
    GatherTerms,
    /// Each member adds up one piece in rank order, and sends it to those that want the sums.
    ReduceScatterGather,
    /// In stages, one after the other. Fetched data spreads along them from the first to the last; sums meet from the last to the first,
    /// in which the ranks' order is that of the terms, and are sent back from the first to the last if all ranks own them.
    Stages(Stages),
    /// By a procedure in ranks of the mesh, whose groups are those of the collective: sums of an output that all members own. In each of
    /// its steps the communication library adds up terms in any order.
    Procedure(Procedure),
}

impl Algorithm {
    /// Bytes of a segment, unless that makes too many: above the size that libraries send eagerly.
    const SEGMENT: u64 = 256 << 10;

    /// Maximum number of segments.
    const SEGMENTS: u64 = 64;

    /// Maximum number of ranks in a chain.
    const CHAIN: u64 = 4;

    /// Returns how at most `bytes` bytes are broadcast during computation in a group of `members` ranks: directly to one other rank, from
    /// rank to rank in a short chain, else in the minimum number of rounds.
    #[must_use]
    pub fn of_broadcast(members: u64, bytes: u64) -> Self {
        let segments = bytes.div_ceil(Self::SEGMENT).clamp(1, Self::SEGMENTS) as usize;
        match members {
            0..=2 => Self::Direct,
            3..=Self::CHAIN => Self::Chain(segments),
            _ => Self::Circulant(segments),
        }
    }

    /// Returns whether it follows from the other parts of a program: neither stages nor a procedure have been chosen.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        !matches!(self, Self::Stages(_) | Self::Procedure(_))
    }

    /// Returns how members add up terms, in each stage if there are stages.
    #[must_use]
    pub fn of_sums(&self) -> SumAlgorithm {
        match self {
            Self::Library => SumAlgorithm::Library,
            Self::ReduceScatterGather | Self::Stages(_) => SumAlgorithm::ReduceScatterGather,
            Self::Direct
            | Self::Chain(_)
            | Self::Circulant(_)
            | Self::EachPart
            | Self::GatherTerms
            | Self::Procedure(_) => SumAlgorithm::GatherTerms,
        }
    }
}

impl From<SumAlgorithm> for Algorithm {
    fn from(algorithm: SumAlgorithm) -> Self {
        match algorithm {
            SumAlgorithm::Library => Self::Library,
            SumAlgorithm::GatherTerms => Self::GatherTerms,
            SumAlgorithm::ReduceScatterGather => Self::ReduceScatterGather,
        }
    }
}

/// How rows that are not contiguous are sent in one message of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Packing {
    /// They are packed.
    #[default]
    Packed,
    /// The library is given their layout, if it supports that (MPI 3.1, section 4.1).
    LaidOut,
}

/// Which ranks along the axes of a collective own the region.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Owners<C = Vec<Expr>> {
    /// The one at these coordinates along the axes.
    One(C),
    /// Every one owns all of it.
    All,
    /// Every one owns a part of it.
    Parts,
}

/// A tile that moves from rank to rank, one iteration after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shift {
    /// The axis.
    pub axis: AxisId,
    /// The neighbour's distance along the axis, modulo its extent.
    pub by: i64,
    /// The loop, the innermost one around the transfer.
    pub counter: CounterId,
}

impl<C, R> From<Leg<C>> for Route<C, R> {
    fn from(leg: Leg<C>) -> Self {
        Self { legs: vec![leg], held: None }
    }
}

impl<C, R> Route<C, R> {
    /// The route of two legs, the first of which leaves `held` in tiles.
    #[must_use]
    pub fn of_two(first: Leg<C>, held: R, next: Leg<C>) -> Self {
        Self { legs: vec![first, next], held: Some(held) }
    }

    /// The route that is this one in the iteration next to the owners, and the shift in all others.
    #[must_use]
    pub fn then_shift(mut self, shift: Shift) -> Self {
        self.legs.push(Leg::Shift(shift));
        self
    }

    /// Returns the shift, if any.
    #[must_use]
    pub fn shift(&self) -> Option<Shift> {
        match self.legs.last() {
            Some(&Leg::Shift(shift)) => Some(shift),
            _ => None,
        }
    }

    /// Returns the legs between owners and tiles, without the shift.
    #[must_use]
    pub fn at_owners(&self) -> &[Leg<C>] {
        &self.legs[..self.legs.len() - usize::from(self.shift().is_some())]
    }

    /// Returns the neighbours from which a region is fetched without its corners, if it is.
    #[must_use]
    pub fn star(&self) -> Option<&Neighbours> {
        let reach = self.legs.iter().find_map(|leg| match leg {
            Leg::Halo { reach } | Leg::Exchange { reach, .. } => Some(reach),
            _ => None,
        });
        reach.filter(|reach| reach.stencil == Stencil::Star)
    }

    /// Returns whether the leaf reads or writes the rank's own shard, in all iterations.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        matches!(self.legs[..], [Leg::InPlace])
    }

    /// Returns whether ranks move only elements that they own.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.shift().is_none() && self.is_fetched_here()
    }

    /// Returns whether a rank owns its tile where it is fetched from the owners, before any shift.
    pub(crate) fn is_fetched_here(&self) -> bool {
        matches!(self.at_owners(), [Leg::InPlace | Leg::Copy])
    }

    /// Returns the procedure by which sums meet at the owners, if one is given.
    #[must_use]
    pub fn procedure(&self) -> Option<&Procedure> {
        self.legs.iter().find_map(Leg::procedure)
    }

    /// Returns its collectives: the leg, the axes, who owns what, and how it is carried out.
    pub fn collectives(&self) -> impl Iterator<Item = (LegId, &Axes, &Owners<C>, &Algorithm)> {
        (0..).map(LegId).zip(&self.legs).filter_map(|(number, leg)| match leg {
            Leg::Collective { axes, owners, by } => Some((number, axes, owners, by)),
            _ => None,
        })
    }

    /// Returns how the first of its collectives is carried out, if it has one.
    #[must_use]
    pub fn algorithm(&self) -> Option<&Algorithm> {
        self.collectives().map(|(.., by)| by).next()
    }

    /// Returns how its collectives are carried out, to change it.
    pub fn algorithms_mut(&mut self) -> impl Iterator<Item = (LegId, &mut Algorithm)> {
        (0..).map(LegId).zip(&mut self.legs).filter_map(|(number, leg)| match leg {
            Leg::Collective { by, .. } => Some((number, by)),
            _ => None,
        })
    }

    /// Returns the neighbours that send parts of a halo, if nothing else is sent.
    #[must_use]
    pub fn halo(&self) -> Option<&Neighbours> {
        match &self.legs[..] {
            [Leg::Halo { reach }] => Some(reach),
            _ => None,
        }
    }

    /// Returns the ranks in reach, and how rows are sent, if one exchange is all that is sent between owners and tiles.
    #[must_use]
    pub fn exchange(&self) -> Option<(&Neighbours, &Packing)> {
        match self.at_owners() {
            [Leg::Exchange { reach, packing }] => Some((reach, packing)),
            _ => None,
        }
    }

    /// Returns how rows are sent by the exchange that it begins with, if it does.
    #[must_use]
    pub fn packing(&self) -> Option<&Packing> {
        match self.legs.first() {
            Some(Leg::Exchange { packing, .. }) => Some(packing),
            _ => None,
        }
    }

    /// Returns the ranks in reach, if a halo or an exchange is all that is sent between owners and tiles.
    #[must_use]
    pub fn among(&self) -> Option<&Neighbours> {
        match self.at_owners() {
            [Leg::Halo { reach } | Leg::Exchange { reach, .. }] => Some(reach),
            _ => None,
        }
    }

    /// Returns whether a tile is forwarded while the next one is received: to a neighbour, or by the second of two legs.
    #[must_use]
    pub fn forwards(&self) -> bool {
        matches!(self.legs[..], [.., Leg::Shift(_)] | [_, Leg::Permute { .. }])
    }

    /// Returns whether a tile is permuted to ranks that broadcast it.
    pub(crate) fn is_permuted_first(&self) -> bool {
        matches!(self.at_owners(), [Leg::Permute { .. }, Leg::Collective { .. }])
    }

    /// Returns whether each rank receives its tile from one other rank.
    #[must_use]
    pub fn is_from_one(&self) -> bool {
        let is_from_one = |leg: &Leg<C>| match leg {
            Leg::InPlace | Leg::Permute { .. } | Leg::Shift(_) => true,
            Leg::Collective { owners, .. } => matches!(owners, Owners::One(_)),
            Leg::Copy | Leg::Halo { .. } | Leg::Exchange { .. } => false,
        };
        self.legs.iter().all(is_from_one)
    }

    /// Returns whether it uses messages of the same kind as another route, from no fewer ranks.
    pub(crate) fn is_at_least(&self, other: &Self) -> bool
    where
        Self: PartialEq,
    {
        match (&self.legs[..], &other.legs[..]) {
            ([Leg::Halo { reach }], [Leg::Halo { reach: other }])
            | ([Leg::Exchange { reach, .. }], [Leg::Exchange { reach: other, .. }]) => reach.hold(other),
            _ => self == other,
        }
    }

    /// Returns the pattern, with axes by name.
    #[must_use]
    pub fn pattern(&self, direction: Direction, mesh: &Mesh) -> Pattern {
        if let Some(Shift { axis, by, .. }) = self.shift() {
            return Pattern::Shift { axis: mesh.as_slice()[axis.0].name, by };
        }
        let mut patterns: Vec<_> = self.legs.iter().map(|leg| leg.pattern(direction, mesh)).collect();
        match patterns.len() {
            1 => patterns.remove(0),
            _ => Pattern::Sequence { patterns },
        }
    }

    /// Returns the maximum number of other ranks that a rank examines in one step: as partners of its messages, or as members of its
    /// group.
    ///
    /// For a halo it does not depend on the mesh.
    #[must_use]
    pub fn partners(&self, mesh: &Mesh) -> usize {
        self.legs.iter().map(|leg| leg.partners(mesh)).max().unwrap_or(0)
    }
}

impl Leg {
    /// Returns the leg of a collective along axes, given as ascending positions, in which the rank at these coordinates along them is the
    /// owner.
    #[must_use]
    pub fn with_one(axes: impl Into<Axes>, owner: &[usize]) -> Self {
        let owner = owner.iter().map(|&at| Expr::constant(at as i64)).collect();
        Self::collective(axes, Owners::One(owner))
    }
}

impl<C> Leg<C> {
    /// Returns the leg of a collective along axes, given as positions, in one call.
    #[must_use]
    pub fn collective(axes: impl Into<Axes>, owners: Owners<C>) -> Self {
        Self::Collective { axes: axes.into(), owners, by: Algorithm::Library }
    }

    /// Returns the same leg, carried out by this algorithm if it is a collective.
    #[must_use]
    pub fn by(mut self, algorithm: impl Into<Algorithm>) -> Self {
        if let Self::Collective { by, .. } = &mut self {
            *by = algorithm.into();
        }
        self
    }

    /// Returns the same leg, with rows sent in place if it is an exchange, where the library supports that.
    #[must_use]
    pub fn laid_out(mut self) -> Self {
        if let Self::Exchange { packing, .. } = &mut self {
            *packing = Packing::LaidOut;
        }
        self
    }

    /// Returns the leg of an exchange with ranks that are in reach along every axis.
    #[must_use]
    pub fn exchange(along: impl Into<Vec<Reach>>) -> Self {
        Self::exchange_with(Neighbours::in_box(along))
    }

    /// Returns the leg of an exchange with ranks in reach.
    #[must_use]
    pub fn exchange_with(reach: Neighbours) -> Self {
        Self::Exchange { reach, packing: Packing::Packed }
    }

    /// Returns the leg that shifts tiles by `by` places along an axis in each iteration of a loop.
    #[must_use]
    pub fn shift(axis: usize, by: i64, counter: usize) -> Self {
        Self::Shift(Shift { axis: AxisId(axis), by, counter: CounterId(counter) })
    }

    /// Returns the leg of a halo from ranks that are in reach along every axis.
    #[must_use]
    pub fn halo(along: impl Into<Vec<Reach>>) -> Self {
        Self::Halo { reach: Neighbours::in_box(along) }
    }

    /// Returns the same leg with other coordinates.
    #[must_use]
    pub fn map<'a, D>(&'a self, mut map: impl FnMut(&'a C) -> D) -> Leg<D> {
        match self {
            Self::InPlace => Leg::InPlace,
            Self::Copy => Leg::Copy,
            Self::Collective { axes, owners, by } => {
                let owners = match owners {
                    Owners::One(owner) => Owners::One(map(owner)),
                    Owners::All => Owners::All,
                    Owners::Parts => Owners::Parts,
                };
                Leg::Collective { axes: axes.clone(), owners, by: by.clone() }
            }
            Self::Shift(shift) => Leg::Shift(*shift),
            Self::Permute { owner, served } => Leg::Permute { owner: map(owner), served: map(served) },
            Self::Halo { reach } => Leg::Halo { reach: reach.clone() },
            Self::Exchange { reach, packing } => Leg::Exchange { reach: reach.clone(), packing: *packing },
        }
    }

    /// Returns the axes along which ranks communicate as a group, if they do, and the stages of their collective.
    #[must_use]
    pub fn group(&self) -> Option<(Vec<usize>, Option<Stages>)> {
        match self {
            Self::Collective { axes, .. } => Some((axes.to_vec(), self.stages().cloned())),
            Self::Shift(shift) => Some((vec![shift.axis.0], None)),
            Self::InPlace | Self::Copy | Self::Permute { .. } | Self::Halo { .. } | Self::Exchange { .. } => None,
        }
    }

    /// Returns the offsets of the peers from which a rank receives by the leg, or, for an output, to which it sends; none for a
    /// permutation, whose offsets differ between ranks.
    #[must_use]
    pub fn reach(&self, mesh: &Mesh) -> Option<Neighbours> {
        let along =
            |reach: &dyn Fn(usize) -> Reach| Neighbours::in_box((0..mesh.ndim()).map(reach).collect::<Vec<_>>());
        Some(match self {
            Self::Halo { reach } | Self::Exchange { reach, .. } => reach.clone(),
            Self::Collective { axes, .. } => along(&|axis| if axes.contains(&axis) { Reach::All } else { Reach::OWN }),
            Self::Shift(Shift { axis, by, .. }) => {
                along(&|other| if other == axis.0 { Reach::Around { low: *by, high: *by } } else { Reach::OWN })
            }
            Self::InPlace | Self::Copy => along(&|_| Reach::OWN),
            Self::Permute { .. } => return None,
        })
    }

    /// Returns the stages of a collective that is carried out in stages.
    #[must_use]
    pub fn stages(&self) -> Option<&Stages> {
        match self {
            Self::Collective { by: Algorithm::Stages(stages), .. } => Some(stages),
            _ => None,
        }
    }

    /// Returns the procedure of a collective that is carried out by one.
    #[must_use]
    pub fn procedure(&self) -> Option<&Procedure> {
        match self {
            Self::Collective { by: Algorithm::Procedure(procedure), .. } => Some(procedure),
            _ => None,
        }
    }

    /// Returns the pattern, with axes by name.
    #[must_use]
    pub fn pattern(&self, direction: Direction, mesh: &Mesh) -> Pattern {
        match self {
            Self::InPlace | Self::Copy => Pattern::Local,
            Self::Collective { axes, owners, .. } => {
                let axes = mesh.names(axes);
                match (direction, owners) {
                    (Direction::In, Owners::One(_)) => Pattern::Broadcast { axes },
                    (Direction::In, Owners::All) => Pattern::Local,
                    (Direction::In, Owners::Parts) => Pattern::AllGather { axes },
                    (Direction::Out { .. }, Owners::One(_)) => Pattern::Reduce { axes },
                    (Direction::Out { .. }, Owners::All) => Pattern::AllReduce { axes },
                    (Direction::Out { .. }, Owners::Parts) => Pattern::ReduceScatter { axes },
                }
            }
            Self::Shift(Shift { axis, by, .. }) => Pattern::Shift { axis: mesh.as_slice()[axis.0].name, by: *by },
            Self::Permute { .. } => Pattern::Permute,
            Self::Halo { reach } => {
                let along = mesh.as_slice().iter().zip(&reach.along);
                let offsets = along.filter_map(|(axis, reach)| Some((axis.name, reach.offsets()?)));
                let moved = offsets.filter(|(_, offsets)| *offsets != (0, 0));
                Pattern::halo(moved.map(|(axis, (low, high))| (axis, low..=high)))
            }
            Self::Exchange { .. } => Pattern::Exchange,
        }
    }

    /// As [`Route::partners`].
    fn partners(&self, mesh: &Mesh) -> usize {
        match self {
            Self::InPlace | Self::Copy => 0,
            Self::Collective { axes, .. } => mesh.group_size(axes) as usize - 1,
            Self::Shift(_) | Self::Permute { .. } => 2,
            Self::Halo { reach } | Self::Exchange { reach, .. } => mesh.others_in_reach(reach),
        }
    }
}
