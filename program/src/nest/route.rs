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
//! | `Collective`, all own it | (nobody sends) | all-reduce |
//! | `Collective`, each owns a part | all-gather | reduce-scatter |
//! | `Shift` | the neighbour's last tile | the sums travel |
//! | `Permute` | from one rank | to one rank |
//! | `Halo` | neighbours' parts | to neighbours |
//! | `Exchange` | all parts | to all owners |
//!
//! Tests: `polyhedral/tests/it/patterns.rs`.

use super::{Region, Transfer};
use crate::expr::{Expr, Ranges, Symbol};
use crate::ids::{Axes, AxisId, Depth, LegId, LoopId};
use crate::pattern::Pattern;
use crate::reduction::Procedure;
use polyshard_layout::{Mesh, Neighbours, Reach, Stages, Stencil};
use serde::{Deserialize, Serialize};

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the owners of an input to the ranks that read it.
    In,
    /// From the ranks that compute an output to its owners, who combine what they get.
    Out {
        /// Whether the communication library chooses the order in which collectives add up partial sums, else it is that of
        /// the ranks, or of the [procedure](CollectiveBy::Procedure).
        any_order: bool,
    },
}

/// How a region gets from its owners to a rank, or backwards: legs, one after the other, the first one at the owners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// One leg, or two of which the second passes on what the first left in tiles; then perhaps a shift, which takes the
    /// place of the others in all iterations but the one next to the owners: the first of an input, the last of an output.
    pub legs: Vec<Leg>,
    /// What the first of two legs leaves in tiles; empty on ranks that pass nothing on.
    pub held: Option<Region>,
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
/// let legs: Vec<_> = program.nest().transfers.iter().flat_map(|transfer| &transfer.route.legs).collect();
/// // A and C stay where they are, and each rank owns a part of B, which all need.
/// assert!(matches!(legs[..], [Leg::InPlace, Leg::Collective { owners: Owners::Parts, .. }, Leg::InPlace]));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Leg {
    /// It lies in the rank's own shard, which the leaf reads or writes where it is.
    InPlace,
    /// The rank owns it, but block-cyclic: it is copied between its own shard and the tile.
    Copy,
    /// Between the tiles of all ranks that differ along some axes, and the shards of those that own it.
    Collective {
        /// The axes.
        axes: Axes,
        /// Which of these ranks own it.
        owners: Owners,
        /// How it is carried out; at once if nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<CollectiveBy>,
    },
    /// From the tile that a neighbour had in the iteration before.
    Shift(Shift),
    /// With one rank each way.
    Permute {
        /// The coordinates of the rank that owns this rank's region.
        owner: Vec<Expr>,
        /// The coordinates of the rank whose region this rank owns.
        served: Vec<Expr>,
    },
    /// With neighbours, who own what of the region the rank does not own itself.
    ///
    /// What an input's region has of ranks that a star leaves out does not come, and no leaf reads it.
    Halo {
        /// Where owners are, seen from the rank that reads or writes.
        reach: Neighbours,
    },
    /// With each owner, the intersection of what it owns and what the rank reads or writes.
    Exchange {
        /// Where owners are, seen from the rank that reads or writes; as for a halo.
        reach: Neighbours,
    },
}

/// How a collective is carried out that is not one call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CollectiveBy {
    /// In stages, one after the other. What comes spreads along them from the first to the last; sums meet from the last to the
    /// first, in which the ranks' order is that of the terms, and are handed back from the first to the last where all own them.
    Stages(Stages),
    /// By a procedure in ranks of the mesh, whose groups are those of the collective: sums of an output that all members own. In
    /// each of its steps the communication library adds up terms as it likes.
    Procedure(Procedure),
}

/// Which ranks along the axes of a collective own the region.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Owners {
    /// The one at these coordinates along the axes.
    One(Vec<Expr>),
    /// Every one owns all of it.
    All,
    /// Every one owns a part of it.
    Parts,
}

/// A tile that goes from rank to rank, an iteration after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shift {
    /// The axis.
    pub axis: AxisId,
    /// The neighbour's distance along the axis, modulo its extent.
    pub by: i64,
    /// The loop, the innermost one around the transfer.
    pub counter: LoopId,
}

impl From<Leg> for Route {
    fn from(leg: Leg) -> Self {
        Self { legs: vec![leg], held: None }
    }
}

impl Route {
    /// The route by two legs, the first of which leaves `held` in tiles.
    #[must_use]
    pub fn of_two(first: Leg, held: Region, next: Leg) -> Self {
        Self { legs: vec![first, next], held: Some(held) }
    }

    /// The route that is this one in the iteration next to the owners, and else the shift.
    #[must_use]
    pub fn then_shift(mut self, shift: Shift) -> Self {
        self.legs.push(Leg::Shift(shift));
        self
    }

    /// Returns the shift, if there is one.
    #[must_use]
    pub fn shift(&self) -> Option<Shift> {
        match self.legs.last() {
            Some(&Leg::Shift(shift)) => Some(shift),
            _ => None,
        }
    }

    /// Returns the legs between owners and tiles, without the shift.
    #[must_use]
    pub fn at_owners(&self) -> &[Leg] {
        &self.legs[..self.legs.len() - usize::from(self.shift().is_some())]
    }

    /// Returns the neighbours that a region comes from without its corners, if it does.
    #[must_use]
    pub fn star(&self) -> Option<&Neighbours> {
        let reach = self.legs.iter().find_map(|leg| match leg {
            Leg::Halo { reach } | Leg::Exchange { reach } => Some(reach),
            _ => None,
        });
        reach.filter(|reach| reach.stencil == Stencil::Star)
    }

    /// Returns whether the leaf reads or writes the rank's own shard, in all iterations.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.legs == [Leg::InPlace]
    }

    /// Returns whether ranks move nothing but what they own themselves.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.legs[..], [Leg::InPlace | Leg::Copy])
    }

    /// Returns the procedure by which sums meet at the owners, if one is given.
    #[must_use]
    pub fn procedure(&self) -> Option<&Procedure> {
        self.legs.iter().find_map(Leg::procedure)
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

    /// Returns the most other ranks that a rank looks at in one step: as partners of its messages, or as members of
    /// its group.
    ///
    /// For a halo it does not depend on the mesh.
    #[must_use]
    pub fn partners(&self, mesh: &Mesh) -> usize {
        self.legs.iter().map(|leg| leg.partners(mesh)).max().unwrap_or(0)
    }
}

impl Leg {
    /// Returns the leg by a collective along axes, given as positions, at once.
    #[must_use]
    pub fn collective(axes: impl Into<Axes>, owners: Owners) -> Self {
        Self::Collective { axes: axes.into(), owners, by: None }
    }

    /// Returns the leg by a collective along axes, given as ascending positions, of what the rank at these coordinates along them owns.
    #[must_use]
    pub fn with_one(axes: impl Into<Axes>, owner: &[usize]) -> Self {
        let owner = owner.iter().map(|&at| Expr::constant(at as i64)).collect();
        Self::collective(axes, Owners::One(owner))
    }

    /// Returns the leg by an exchange with ranks that are in reach along every axis.
    #[must_use]
    pub fn exchange(along: impl Into<Vec<Reach>>) -> Self {
        Self::Exchange { reach: Neighbours::in_box(along) }
    }

    /// Returns the axes along which ranks communicate as a group, if they do, and the stages that they do it in.
    #[must_use]
    pub fn group(&self) -> Option<(Vec<usize>, Option<Stages>)> {
        match self {
            Self::Collective { axes, .. } => Some((axes.to_vec(), self.stages().cloned())),
            Self::Shift(shift) => Some((vec![shift.axis.0], None)),
            Self::InPlace | Self::Copy | Self::Permute { .. } | Self::Halo { .. } | Self::Exchange { .. } => None,
        }
    }

    /// Returns where the ranks are that a rank gets something from by the leg, or, of an output, hands something to; none of a permutation,
    /// in which that is not the same for all ranks.
    #[must_use]
    pub fn reach(&self, mesh: &Mesh) -> Option<Neighbours> {
        let along =
            |reach: &dyn Fn(usize) -> Reach| Neighbours::in_box((0..mesh.ndim()).map(reach).collect::<Vec<_>>());
        Some(match self {
            Self::Halo { reach } | Self::Exchange { reach } => reach.clone(),
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
            Self::Collective { by: Some(CollectiveBy::Stages(stages)), .. } => Some(stages),
            _ => None,
        }
    }

    /// Returns the procedure of a collective that is carried out by one.
    #[must_use]
    pub fn procedure(&self) -> Option<&Procedure> {
        match self {
            Self::Collective { by: Some(CollectiveBy::Procedure(procedure)), .. } => Some(procedure),
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
            Self::Halo { reach } | Self::Exchange { reach } => mesh.others_in_reach(reach),
        }
    }
}

/// A leg of a transfer, with what it moves.
pub(crate) struct Hop<'a> {
    pub leg: &'a Leg,
    pub region: Region,
    /// The serial loops that the region may depend on.
    pub level: Depth,
}

impl Transfer {
    /// The legs between owners and tiles, numbered, each with what it moves: the first of two what it leaves in tiles.
    pub(crate) fn at_owners(&self) -> impl Iterator<Item = (LegId, &Leg, &Region)> {
        let Self { route, region, .. } = self;
        let held = |nth: usize| route.held.as_ref().filter(|_| nth == 0);
        route.at_owners().iter().enumerate().map(move |(nth, leg)| (LegId(nth), leg, held(nth).unwrap_or(region)))
    }

    /// The legs with what each of them moves, those at the owners first.
    pub(crate) fn hops(&self, ranges: &Ranges) -> impl Iterator<Item = Hop<'_>> {
        let shift = self.route.shift();
        let at_owners = self.at_owners().map(move |(_, leg, region)| match shift {
            None => Hop { leg, region: region.clone(), level: self.level },
            Some(Shift { counter, .. }) => {
                let value = self.iteration_at_owners(ranges.counters[counter.0]);
                let region = region.fixed(Symbol::Counter(counter), value, ranges);
                Hop { leg, region, level: Depth(self.level.0 - 1) }
            }
        });
        let shifted = self.route.legs[self.route.at_owners().len()..].iter();
        at_owners.chain(shifted.map(|leg| Hop { leg, region: self.region.clone(), level: self.level }))
    }

    /// The iteration of a shift's loop, of `iterations`, in which its tile comes from the owners or goes to them: the first for an
    /// input, the last for an output.
    pub(crate) fn iteration_at_owners(&self, iterations: i64) -> i64 {
        match self.direction {
            Direction::In => 0,
            Direction::Out { .. } => iterations - 1,
        }
    }
}
