//! Routes: how a region of an input gets to the ranks that read it.

use super::Region;
use crate::expr::Expr;
use crate::pattern::Pattern;
use polyshard_layout::{Mesh, Reach};
use serde::{Deserialize, Serialize};

/// How a region gets to the rank that reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Route {
    /// It lies in the rank's own shard, which the leaf reads in place.
    Hold,
    /// The rank owns it, but block-cyclic: it is gathered from the rank's own shard.
    Copy,
    /// One rank along the axes sends it to all of them.
    Broadcast {
        /// The axes' positions, ascending.
        axes: Vec<usize>,
        /// The root's coordinates along them.
        root: Vec<Expr>,
    },
    /// In the first iteration of the innermost loop around by another route; then from the neighbour.
    Shift {
        /// The axis' position.
        axis: usize,
        /// The neighbour's distance along the axis, modulo its extent.
        by: i64,
        /// The loop.
        counter: usize,
        /// The route of the first iteration.
        first: Box<Route>,
    },
    /// From one rank, and what this rank owns to one rank.
    Permute {
        /// The coordinates of the rank that owns this rank's region.
        from: Vec<Expr>,
        /// The coordinates of the rank whose region this rank owns.
        to: Vec<Expr>,
    },
    /// Every rank along the axes contributes the part that it owns.
    AllGather {
        /// The axes' positions, ascending.
        axes: Vec<usize>,
    },
    /// By one route to ranks that pass it on, and from their tiles by another: a broadcast or a permutation.
    Sequence {
        /// How ranks get what they pass on.
        first: Box<Route>,
        /// What they pass on; empty on those that do not.
        held: Region,
        /// How it gets to those that read it.
        next: Box<Route>,
    },
    /// Neighbours send what they own of the region, whose rest is what the rank owns itself.
    Halo {
        /// Per axis, how far owners are from the rank that reads.
        reach: Vec<Reach>,
    },
    /// Each owner sends each reader the intersection of what it owns and what the other reads.
    Exchange {
        /// Per axis, how far owners are from the rank that reads.
        reach: Vec<Reach>,
    },
}

impl Route {
    /// Returns the most tiles that a rank receives in one step.
    pub fn tiles_received(&self) -> u64 {
        match self {
            Self::Hold | Self::Copy => 0,
            Self::Shift { first, .. } => first.tiles_received().max(1),
            // The ranks that a tile is permuted to are those that broadcast it, so that none receives it twice.
            Self::Sequence { first, next, .. } => match (&**first, &**next) {
                (Self::Permute { .. }, Self::Broadcast { .. }) => 1,
                (first, next) => first.tiles_received() + next.tiles_received(),
            },
            _ => 1,
        }
    }

    /// Returns the number of tile buffers that it takes turns with.
    pub fn buffers(&self) -> usize {
        match self {
            Self::Hold => 0,
            Self::Shift { .. } => 2,
            // A tile that is handed on is still sent while the next one is received.
            Self::Sequence { next, .. } if matches!(**next, Self::Permute { .. }) => 2,
            _ => 1,
        }
    }

    /// Returns the pattern, with axes by name.
    #[must_use]
    pub fn pattern(&self, mesh: &Mesh) -> Pattern {
        match self {
            Self::Hold | Self::Copy => Pattern::Local,
            Self::Broadcast { axes, .. } => Pattern::Broadcast { axes: mesh.names(axes) },
            Self::Shift { axis, by, .. } => Pattern::Shift { axis: mesh.as_slice()[*axis].name, by: *by },
            Self::Permute { .. } => Pattern::Permute,
            Self::AllGather { axes } => Pattern::AllGather { axes: mesh.names(axes) },
            Self::Sequence { first, next, .. } => {
                Pattern::Sequence { patterns: vec![first.pattern(mesh), next.pattern(mesh)] }
            }
            Self::Halo { reach } => halo(reach, mesh),
            Self::Exchange { .. } => Pattern::Exchange,
        }
    }

    /// Returns the most other ranks that a rank looks at in one step: as partners of its messages, or as members of
    /// its group.
    ///
    /// For a halo it does not depend on the mesh.
    #[must_use]
    pub fn partners(&self, mesh: &Mesh) -> usize {
        let group = |axes: &[usize]| members(axes, mesh) as usize - 1;
        match self {
            Self::Hold | Self::Copy => 0,
            Self::Broadcast { axes, .. } | Self::AllGather { axes } => group(axes),
            Self::Shift { first, .. } => first.partners(mesh).max(2),
            Self::Permute { .. } => 2,
            Self::Sequence { first, next, .. } => first.partners(mesh).max(next.partners(mesh)),
            Self::Halo { reach } | Self::Exchange { reach } => partners(reach, mesh),
        }
    }
}

/// The pattern of neighbours, along the axes on which there are any.
pub(super) fn halo(reach: &[Reach], mesh: &Mesh) -> Pattern {
    let along = mesh.as_slice().iter().zip(reach);
    let offsets = along.filter_map(|(axis, reach)| Some((axis.name, reach.offsets()?)));
    let moved = offsets.filter(|(_, offsets)| *offsets != (0, 0));
    Pattern::halo(moved.map(|(axis, (low, high))| (axis, low..=high)))
}

/// The number of ranks that differ along `axes` alone.
pub fn members(axes: &[usize], mesh: &Mesh) -> u64 {
    axes.iter().map(|&axis| mesh.as_slice()[axis].extent as u64).product()
}

/// The most other ranks within a reach.
pub fn partners(reach: &[Reach], mesh: &Mesh) -> usize {
    let along = reach.iter().zip(mesh.as_slice()).map(|(reach, axis)| reach.count(axis.extent));
    along.fold(1, usize::saturating_mul).saturating_sub(1)
}
