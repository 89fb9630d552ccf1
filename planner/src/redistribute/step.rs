//! One step of a plan: an operation from one type to another, and the ranks that take part.

use super::group::{Diagonal, Senders, diagonals, members, moved};
use super::problem::Cost;
use crate::DistType;
use crate::part::{AxisPart, common, extent, joined, split, texts};
use polyshard_layout::Collective;

/// One step of a [`Plan`](super::Plan).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    op: Collective,
    from: DistType,
    to: DistType,
    axes: Vec<AxisPart>,
    diagonals: Vec<Diagonal>,
}

impl PlanStep {
    /// Returns the step, if digits can be split as its groups require, and the operation does not reduce.
    pub(super) fn new(op: Collective, from: DistType, to: DistType) -> Option<Self> {
        let (axes, diagonals) = match op {
            Collective::Slice => (moved(&from, &to)?.1, Vec::new()),
            Collective::AllToAll => {
                let (out, into) = moved(&from, &to)?;
                let diagonals = diagonals(&out, Some(&into))?;
                (out, diagonals)
            }
            Collective::AllGather => {
                let (out, _) = moved(&from, &to)?;
                let diagonals = diagonals(&out, None)?;
                (out, diagonals)
            }
            Collective::Permute => (Vec::new(), Vec::new()),
            Collective::Exchange => {
                let axes = differing(&from, &to);
                let diagonals = diagonals(&axes, None)?;
                (axes, diagonals)
            }
            _ => return None,
        };
        Some(Self { op, from, to, axes, diagonals })
    }

    /// Returns the operation.
    #[must_use]
    pub fn op(&self) -> Collective {
        self.op
    }

    /// Returns the source type of this step.
    #[must_use]
    pub fn from(&self) -> &DistType {
        &self.from
    }

    /// Returns the target type of this step.
    #[must_use]
    pub fn to(&self) -> &DistType {
        &self.to
    }

    /// Returns the digits that are removed or added, along which groups lie. None for a permutation.
    #[must_use]
    pub fn axes(&self) -> &[AxisPart] {
        &self.axes
    }

    /// Returns the names of [`axes`](Self::axes), digits as `y%3`.
    #[must_use]
    pub fn axis_names(&self) -> Vec<String> {
        texts(&self.axes, self.from.mesh())
    }

    /// Returns the number of ranks in a group, 1 for a slice and a permutation.
    #[must_use]
    pub fn group_size(&self) -> usize {
        match self.op {
            Collective::Slice | Collective::Permute => 1,
            _ => extent(&self.axes),
        }
    }

    /// Returns the ranks of the group of `rank`, ascending; the same list for each of them.
    ///
    /// For a slice, this rank alone; for a permutation, this rank, its sender and its receiver.
    ///
    /// # Panics
    /// If the mesh has no such rank.
    #[must_use]
    pub fn members(&self, rank: usize) -> Vec<usize> {
        match self.op {
            Collective::Permute => {
                let mut members = vec![self.sender(rank), rank, self.receiver(rank)];
                members.sort_unstable();
                members.dedup();
                members
            }
            _ => members(self.from.mesh(), &self.diagonals, rank),
        }
    }

    /// Returns all groups between whose ranks elements move, each ascending, in the order of their first ranks; for a
    /// permutation its cycles, each rank before the receiver of its tile.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups = Vec::new();
        let mut seen = vec![false; self.from.mesh().size()];
        let receivers = (self.op == Collective::Permute).then(|| Senders::new(&self.to, &self.from));
        for rank in 0..seen.len() {
            if seen[rank] {
                continue;
            }
            let group = match &receivers {
                Some(receivers) => cycle(receivers, rank),
                None => self.members(rank),
            };
            group.iter().for_each(|&member| seen[member] = true);
            if group.len() > 1 {
                groups.push(group);
            }
        }
        groups
    }

    /// Returns the rank that, in a permutation, sends `rank` its new tile.
    ///
    /// # Panics
    /// If the step is not a permutation.
    #[must_use]
    pub fn sender(&self, rank: usize) -> usize {
        assert_eq!(self.op, Collective::Permute, "only a permutation has one sender per rank");
        Senders::new(&self.from, &self.to).sender(rank)
    }

    /// Returns the rank to which `rank` sends its tile in a permutation.
    ///
    /// # Panics
    /// If the step is not a permutation.
    #[must_use]
    pub fn receiver(&self, rank: usize) -> usize {
        assert_eq!(self.op, Collective::Permute, "only a permutation has one receiver per rank");
        Senders::new(&self.to, &self.from).sender(rank)
    }

    /// Returns the step's cost in elements, as the literature counts it (Rink et al., figure 11): a device's whole tile
    /// for an all-to-all or a permutation, including the part that stays; its tile afterwards for an all-gather;
    /// nothing for a slice. For an exchange, the maximum that a device receives from others.
    #[must_use]
    pub fn elements(&self) -> Cost {
        match self.op {
            Collective::Slice => 0,
            Collective::AllToAll | Collective::Permute => self.from.tile_len() as Cost,
            Collective::AllGather => self.to.tile_len() as Cost,
            _ => super::volume::most_received(&self.from, &self.to),
        }
    }

    /// Returns the elements of its new tile that `rank` receives from other ranks.
    #[must_use]
    pub fn received(&self, rank: usize) -> usize {
        let (before, after) = (self.from.tile_len(), self.to.tile_len());
        match self.op {
            Collective::Slice => 0,
            Collective::AllToAll => after - after / self.group_size(),
            Collective::AllGather => after - before,
            _ => super::volume::received(&self.from, &self.to, rank),
        }
    }

    /// Returns the elements of the larger of the two tiles.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.from.tile_len().max(self.to.tile_len())
    }

    /// Returns the maximum of the elements that any rank receives from others.
    pub(super) fn received_at_most(&self) -> Cost {
        match self.op {
            Collective::Permute | Collective::Exchange => super::volume::most_received(&self.from, &self.to),
            _ => self.received(0) as Cost,
        }
    }

    /// Returns the elements that all ranks receive from others, together.
    pub(super) fn received_by_all(&self) -> Cost {
        (0..self.from.mesh().size()).map(|rank| self.received(rank) as Cost).sum()
    }
}

/// The cycle of a permutation that begins with `rank`.
fn cycle(receivers: &Senders<'_>, rank: usize) -> Vec<usize> {
    let mut cycle = vec![rank];
    let mut next = receivers.sender(rank);
    while next != rank {
        cycle.push(next);
        next = receivers.sender(next);
    }
    cycle
}

/// The digits in which two types differ, below the common cut. Digits that overlap become one.
fn differing(from: &DistType, to: &DistType) -> Vec<AxisPart> {
    let mut parts_that_differ = Vec::new();
    for (before, after) in from.dims().iter().zip(to.dims()) {
        let alike = extent(&common(&before.parts, &after.parts));
        for parts in [&before.parts, &after.parts] {
            let low = split(parts, extent(parts) / alike).map(|(low, _)| low);
            parts_that_differ.extend(low.expect("what is cut alike comes apart: this is a bug in polyshard"));
        }
    }
    parts_that_differ.sort_unstable();
    let mut apart: Vec<AxisPart> = Vec::new();
    for part in parts_that_differ {
        match apart.last_mut() {
            Some(last) if !part.is_independent_of(last) => {
                let end = (last.stride * last.extent).max(part.stride * part.extent);
                if end.is_multiple_of(last.stride) {
                    last.extent = end / last.stride;
                } else {
                    *last = AxisPart::whole(from.mesh(), part.axis);
                }
            }
            _ => apart.push(part),
        }
    }
    joined(apart)
}
