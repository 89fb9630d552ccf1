//! How far from a rank its communication partners are, along one axis and along all.

use serde::{Deserialize, Serialize};

/// The coordinates of owners along one axis, seen from the rank that reads: an offset is owner minus reader.
///
/// ```
/// use polyshard::layout::Reach;
/// let stencil = Reach::Within { low: -1, high: 2 };
/// assert_eq!(stencil.coordinates(0, 8).collect::<Vec<_>>(), [0, 1, 2]);
/// assert_eq!(stencil.mirrored().coordinates(0, 8).collect::<Vec<_>>(), [0, 1]);
/// let ring = Reach::Around { low: -1, high: 1 };
/// assert_eq!(ring.coordinates(0, 8).collect::<Vec<_>>(), [0, 1, 7]);
/// assert_eq!((ring.count(8), ring.count(2), Reach::All.count(8)), (3, 2, 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reach {
    /// Any coordinate.
    All,
    /// Offsets `low..=high` inside the mesh.
    Within {
        /// The smallest offset.
        low: i64,
        /// The largest offset.
        high: i64,
    },
    /// Offsets `low..=high` around the axis, whose last coordinate is next to its first.
    Around {
        /// The smallest offset.
        low: i64,
        /// The largest offset.
        high: i64,
    },
}

impl Reach {
    /// The rank's own coordinate alone.
    pub const OWN: Self = Self::Within { low: 0, high: 0 };

    /// Returns the offsets; `None` if all coordinates are in reach.
    #[must_use]
    pub fn offsets(self) -> Option<(i64, i64)> {
        match self {
            Self::All => None,
            Self::Within { low, high } | Self::Around { low, high } => Some((low, high)),
        }
    }

    /// Returns the reach of the owner: the coordinates of those that read from it.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::All => Self::All,
            Self::Within { low, high } => Self::Within { low: -high, high: -low },
            Self::Around { low, high } => Self::Around { low: -high, high: -low },
        }
    }

    /// Returns the maximum number of coordinates in reach on an axis of this extent.
    #[must_use]
    pub fn count(self, extent: usize) -> usize {
        let offsets = |(low, high): (i64, i64)| usize::try_from(i128::from(high) - i128::from(low) + 1).unwrap_or(0);
        self.offsets().map_or(extent, |range| offsets(range).min(extent))
    }

    /// Returns whether a rank's own coordinate is in its reach, on an axis of this extent.
    #[must_use]
    pub fn holds_own(self, extent: usize) -> bool {
        match self {
            Self::All => true,
            Self::Within { low, high } => low <= 0 && 0 <= high,
            Self::Around { low, high } => low <= high && high - high.rem_euclid(extent as i64) >= low,
        }
    }

    /// Returns whether this reach contains another one on axes of any extent, as far as the offsets show it.
    ///
    /// ```
    /// use polyshard::layout::Reach;
    /// let [near, far] = [1, 2].map(|far| Reach::Within { low: -far, high: far });
    /// assert!(far.holds(near) && !near.holds(far));
    /// // Beyond the end of an axis nothing is in reach, but round it something is.
    /// let ring = Reach::Around { low: -1, high: 1 };
    /// assert!(ring.holds(near) && !near.holds(ring) && Reach::All.holds(ring));
    /// ```
    #[must_use]
    pub fn holds(self, other: Self) -> bool {
        let nested = |(low, high): (i64, i64), (least, most): (i64, i64)| low <= least && most <= high;
        match (self, other) {
            (Self::All, _) => true,
            (Self::Within { .. }, Self::Around { .. }) | (_, Self::All) => false,
            _ => self.offsets().zip(other.offsets()).is_some_and(|(outer, inner)| nested(outer, inner)),
        }
    }

    /// Returns the coordinates in reach of the rank at `own`, ascending, each once.
    pub fn coordinates(self, own: usize, extent: usize) -> impl Iterator<Item = usize> {
        let clipped = |low: i64, high: i64| {
            let end = (own as i64).saturating_add(high).saturating_add(1).clamp(0, extent as i64);
            (own as i64).saturating_add(low).clamp(0, extent as i64) as usize..end as usize
        };
        let [first, second] = match self {
            Self::Within { low, high } => [clipped(low, high), 0..0],
            Self::Around { low, high } if self.count(extent) < extent => {
                let start = (own as i128 + i128::from(low)).rem_euclid(extent as i128) as usize;
                let end = start + (high - low + 1).max(0) as usize;
                [0..end.saturating_sub(extent), start..end.min(extent)]
            }
            Self::All | Self::Around { .. } => [0..extent, 0..0],
        };
        first.chain(second)
    }
}

/// Which ranks a rank exchanges elements with: those in reach along every axis, at once or along one axis alone.
///
/// ```text
///        box               star
///     x  x  x               x
///     x  o  x            x  o  x        reach -1..=1 along both axes
///     x  x  x               x
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Neighbours {
    /// The reach along each axis.
    pub along: Vec<Reach>,
    /// Whether ranks that differ along several axes are neighbours.
    #[serde(default)]
    pub stencil: Stencil,
}

/// Along how many axes neighbours differ from a rank. PETSc's `DMDAStencilType` has the same two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stencil {
    /// Along any number of them: corners are neighbours too.
    #[default]
    Box,
    /// Along at most one.
    Star,
}

impl Neighbours {
    /// All ranks in reach along every axis.
    #[must_use]
    pub fn in_box(along: impl Into<Vec<Reach>>) -> Self {
        Self { along: along.into(), stencil: Stencil::Box }
    }

    /// Of the ranks in reach along every axis, the rank itself and those that differ from it along one axis alone.
    #[must_use]
    pub fn in_star(along: impl Into<Vec<Reach>>) -> Self {
        Self { along: along.into(), stencil: Stencil::Star }
    }

    /// Returns whether these neighbours of a rank include all of `other`, on any mesh.
    ///
    /// ```
    /// use polyshard::layout::{Neighbours, Reach};
    /// let near = Reach::Within { low: -1, high: 1 };
    /// let [full, star] = [Neighbours::in_box([near; 2]), Neighbours::in_star([near; 2])];
    /// assert!(full.hold(&star) && !star.hold(&full));
    /// // A box along one axis has no corners.
    /// assert!(star.hold(&Neighbours::in_box([Reach::OWN, near])));
    /// ```
    #[must_use]
    pub fn hold(&self, other: &Self) -> bool {
        let moves = other.along.iter().filter(|reach| **reach != Reach::OWN).count();
        let along = self.along.len() == other.along.len()
            && self.along.iter().zip(&other.along).all(|(outer, inner)| outer.holds(*inner));
        along && (self.stencil == Stencil::Box || other.stencil == Stencil::Star || moves <= 1)
    }

    /// Returns the neighbours of the owner: those that read from it.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        Self { along: self.along.iter().map(|reach| reach.mirrored()).collect(), stencil: self.stencil }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mesh;

    #[test]
    fn neighbours_that_hold_others_have_them_on_every_mesh() {
        let offsets = || (-2..3).flat_map(|low| (low..3).map(move |high| (low, high)));
        let within = offsets().map(|(low, high)| Reach::Within { low, high });
        let around = offsets().map(|(low, high)| Reach::Around { low, high });
        let along: Vec<_> = within.chain(around).chain([Reach::All]).collect();
        let pairs = along.iter().flat_map(|&one| along.iter().map(move |&other| [one, other]));
        let all: Vec<_> = pairs.flat_map(|along| [Neighbours::in_box(along), Neighbours::in_star(along)]).collect();
        let meshes = [(2, 3), (4, 1), (3, 5)].map(|(x, y)| Mesh::new([("x", x), ("y", y)]));
        // The ranks in reach of each rank, for neighbours and a mesh.
        let reached = |neighbours: &Neighbours, mesh: &Mesh| -> Vec<Vec<usize>> {
            let of = |rank: usize| {
                let found = mesh.in_reach(&mesh.coordinates(rank), neighbours);
                let mut found: Vec<_> = found.map(|at| mesh.rank(&at)).collect();
                found.sort_unstable();
                found
            };
            (0..mesh.size()).map(of).collect()
        };
        let reached: Vec<_> = all.iter().map(|one| meshes.each_ref().map(|mesh| reached(one, mesh))).collect();
        let mut held = 0;
        for (nth, outer) in all.iter().enumerate().step_by(7) {
            assert!(outer.hold(outer), "{outer:?}");
            for (other, inner) in all.iter().enumerate().filter(|(_, inner)| outer.hold(inner)) {
                held += 1;
                let mut ranks = reached[nth].iter().flatten().zip(reached[other].iter().flatten());
                let holds =
                    |outer: &[usize], inner: &[usize]| inner.iter().all(|rank| outer.binary_search(rank).is_ok());
                assert!(ranks.all(|(outer, inner)| holds(outer, inner)), "{outer:?} and {inner:?}");
            }
        }
        assert!(held > 1000, "{held}");
    }

    #[test]
    fn a_reader_reaches_an_owner_that_reaches_it_back() {
        for extent in 1..6_i64 {
            for low in -7..8 {
                for high in low - 1..8 {
                    for reach in [Reach::Within { low, high }, Reach::Around { low, high }] {
                        for own in 0..extent {
                            let meant = |other: i64| match reach {
                                Reach::Around { .. } => (low..=high).any(|d| (own + d).rem_euclid(extent) == other),
                                _ => (low..=high).contains(&(other - own)),
                            };
                            let expected: Vec<_> = (0..extent).filter(|&other| meant(other)).collect();
                            let found: Vec<_> =
                                reach.coordinates(own as usize, extent as usize).map(|other| other as i64).collect();
                            assert_eq!(found, expected, "{reach:?} from {own} of {extent}");
                            assert!(found.len() <= reach.count(extent as usize));
                            assert_eq!(found.contains(&own), reach.holds_own(extent as usize), "{reach:?} of {extent}");
                            for other in found {
                                let mut back = reach.mirrored().coordinates(other as usize, extent as usize);
                                assert!(back.any(|back| back as i64 == own), "{reach:?} from {own} of {extent}");
                            }
                        }
                    }
                }
            }
        }
    }
}
