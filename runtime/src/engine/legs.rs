//! Execution of legs: between the owners' shards and tiles, in both directions, and between two arrays.

use super::table::Coordinates;
use crate::groups::Groups;
use crate::redistribute::legs::Arrays;
use crate::tile::{Fetching, Link, Target, When};
use crate::{Element, Grid, Region, Result};
use polyshard_program::{Expr, Leg, Owners};
use smallvec::SmallVec;

/// The rank that carries out a leg, in one iteration.
pub(crate) struct At<'a> {
    pub(crate) groups: &'a Groups,
    pub(crate) coordinates: &'a [i64],
    pub(crate) counters: &'a [i64],
}

impl At<'_> {
    fn values(&self, of: &Coordinates<'_>) -> SmallVec<[i64; 6]> {
        of.at(self.coordinates, self.counters)
    }

    /// The rank that this one gets its region from, and the rank that it sends a region to, with that region.
    fn permutation(
        &self,
        grid: &Grid<'_>,
        [owner, served]: [&Coordinates<'_>; 2],
        region_of: &dyn Fn(&[i64]) -> Region,
    ) -> (usize, Option<(usize, Region)>) {
        grid.permutation(|at_rank: &[i64]| owner.at(at_rank, self.counters), &self.values(served), region_of)
    }
}

/// The link by which a leg fetches a region from the shards of an input, or from other tiles.
pub(crate) struct Input<'e, T: Element> {
    pub(crate) grid: &'e Grid<'e>,
    pub(crate) link: &'e mut Link<T>,
    pub(crate) of: Fetching<'e, T>,
    /// Whether the rank's own part is read in place, with the tile around it.
    pub(crate) is_around: bool,
    /// The region of any rank.
    pub(crate) region_of: &'e dyn Fn(&[i64]) -> Region,
}

impl<T: Element> Input<'_, T> {
    /// Carries out a leg.
    pub(crate) fn carry_out(self, leg: &Leg<Coordinates<'_>>, at: &At<'_>) -> Result<()> {
        let Self { grid, link, of, is_around, region_of } = self;
        match leg {
            Leg::InPlace => link.own(of, true),
            Leg::Copy | Leg::Collective { owners: Owners::All, .. } => link.own(of, false),
            Leg::Collective { axes, owners: Owners::One(root), .. } => {
                link.broadcast(at.groups.along(axes, leg.stages()), &at.values(root), of)
            }
            Leg::Collective { axes, owners: Owners::Parts, .. } => {
                link.all_gather(at.groups.along(axes, leg.stages()), of)
            }
            Leg::Permute { owner, served } => link.permute(grid, at.permutation(grid, [owner, served], region_of), of),
            Leg::Halo { reach } | Leg::Exchange { reach, .. } => link.exchange(grid, reach, region_of, is_around, of),
            Leg::Shift(shift) => link.shift(at.groups.along(&[shift.axis.0], None), shift.by, of),
        }
    }
}

/// The link by which a leg sends the region of the output's tile to the shards of its owners.
pub(crate) struct Output<'e, 't, T: Element> {
    pub(crate) grid: &'e Grid<'e>,
    pub(crate) link: &'e mut Link<T>,
    pub(crate) target: &'e mut Target<'t, T>,
    pub(crate) when: When,
    pub(crate) region_of: &'e dyn Fn(&[i64]) -> Region,
}

impl<T: Element> Output<'_, '_, T> {
    /// Carries out a leg.
    pub(crate) fn carry_out(self, leg: &Leg<Coordinates<'_>>, at: &At<'_>) -> Result<()> {
        let Self { grid, link, target, when, region_of } = self;
        match leg {
            Leg::Copy => {
                link.combine_own(target);
                Ok(())
            }
            // A shift of sums has been received where these sums began.
            Leg::InPlace | Leg::Shift(_) => Ok(()),
            Leg::Collective { axes, owners, .. } => {
                let group = at.groups.along(axes, leg.stages());
                match owners {
                    Owners::One(root) => link.reduce(group, Some(&at.values(root)), target, when),
                    Owners::All => link.reduce(group, None, target, when),
                    Owners::Parts => link.reduce_scatter(group, target, when),
                }
            }
            Leg::Permute { owner, served } => {
                // The roles are those of an input, reversed: the owner of a rank's tile receives it.
                let (to, from) = at.permutation(grid, [owner, served], region_of);
                link.permute_back(grid, to, from, target, when)
            }
            Leg::Halo { reach } | Leg::Exchange { reach, .. } => link.write_back(grid, reach, region_of, target, when),
        }
    }
}

impl<T: Element> Arrays<'_, '_, T> {
    /// Carries out a leg.
    ///
    /// # Panics
    /// If no array is moved by such a leg: a bug in polyshard.
    pub(crate) fn carry_out(self, leg: &Leg<Coordinates<'_>>, at: &At<'_>) -> Result<()> {
        match leg {
            Leg::Collective { axes, owners, by } => {
                let group = at.groups.along(axes, leg.stages());
                match owners {
                    Owners::One(root) => self.reduce(group, Some(&at.values(root)), by),
                    Owners::All => self.reduce(group, None, by),
                    Owners::Parts => self.parts(group),
                }
            }
            Leg::Exchange { packing, .. } => self.exchange(*packing),
            leg => unreachable!("no array is moved by {leg:?}; this is a bug in polyshard"),
        }
    }
}

/// The values of expressions for the rank at these coordinates, where loops have these counters.
pub(crate) fn values_at(exprs: &[Expr], coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]> {
    exprs.iter().map(|expr| expr.eval(coordinates, counters)).collect()
}
