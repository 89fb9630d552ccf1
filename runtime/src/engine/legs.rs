//! Execution of legs: between the owners' shards and tiles, in both directions, and between two arrays.

use super::table::Coordinates;
use crate::groups::Groups;
use crate::redistribute::legs::Arrays;
use crate::tile::{Link, Source, When};
use crate::{DistArray, Element, Grid, ReduceOp, Region, Result, Shards};
use polyshard_program::{Expr, Leg, Owners};
use smallvec::SmallVec;

/// The rank that carries out a leg, in one iteration.
pub(crate) struct At<'a> {
    pub(crate) groups: &'a Groups,
    pub(crate) coordinates: &'a [i64],
    pub(crate) counters: &'a [i64],
}

/// The two ends of a leg.
pub(crate) enum Ends<'e, 'm, T: Element> {
    /// The shards of an input, or other tiles, and a tile.
    Input(Input<'e, T>),
    /// The output's tile and shards.
    Output(Output<'e, T>),
    /// Two arrays.
    Arrays(Arrays<'e, 'm, T>),
}

/// The link by which a leg fetches a region.
pub(crate) struct Input<'e, T: Element> {
    pub(crate) grid: &'e Grid<'e>,
    pub(crate) link: &'e mut Link<T>,
    pub(crate) source: Shards<'e, T>,
    pub(crate) from: Source,
    pub(crate) when: When,
    /// Whether the rank's own part is read in place, with the tile around it.
    pub(crate) is_around: bool,
    /// The region of this rank, and that of any rank.
    pub(crate) here: Region,
    pub(crate) region_of: &'e dyn Fn(&[i64]) -> Region,
}

/// The link by which a leg sends a region.
pub(crate) struct Output<'e, T: Element> {
    pub(crate) grid: &'e Grid<'e>,
    pub(crate) link: &'e mut Link<T>,
    pub(crate) target: &'e mut DistArray<T>,
    pub(crate) op: ReduceOp,
    pub(crate) when: When,
    pub(crate) region_of: &'e dyn Fn(&[i64]) -> Region,
}

/// The values of expressions for the rank at these coordinates, where loops have these counters.
pub(crate) fn values_at(exprs: &[Expr], coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]> {
    exprs.iter().map(|expr| expr.eval(coordinates, counters)).collect()
}

/// Carries out a leg.
pub(crate) fn carry_out<T: Element>(leg: &Leg<Coordinates<'_>>, at: &At<'_>, ends: Ends<'_, '_, T>) -> Result<()> {
    type Of<'a> = Coordinates<'a>;
    let values = |of: &Of<'_>| of.at(at.coordinates, at.counters);
    let permutation = |grid: &Grid<'_>, owner: &Of<'_>, served: &Of<'_>, region_of: &dyn Fn(&[i64]) -> Region| {
        grid.permutation(|at_rank: &[i64]| owner.at(at_rank, at.counters), &values(served), region_of)
    };
    match (leg, ends) {
        // Data that the rank owns itself.
        (Leg::InPlace | Leg::Copy | Leg::Collective { owners: Owners::All, .. }, Ends::Input(input)) => {
            input.link.own(input.source, &input.here, matches!(leg, Leg::InPlace), input.when)
        }
        (Leg::Copy, Ends::Output(output)) => {
            output.link.combine_own(output.target, output.op);
            Ok(())
        }
        // A shift of sums has been received where these sums began.
        (Leg::InPlace | Leg::Shift(_), Ends::Output(_)) => Ok(()),
        (Leg::Collective { axes, owners, by }, ends) => {
            let group = at.groups.along(axes, leg.stages());
            match (owners, ends) {
                (Owners::One(root), Ends::Input(Input { link, source, from, when, here, .. })) => {
                    link.broadcast(group, &values(root), source, &here, from, when)
                }
                (Owners::Parts | Owners::All, Ends::Input(Input { link, source, when, here, .. })) => {
                    link.all_gather(group, source, &here, when)
                }
                (Owners::One(root), Ends::Output(Output { link, target, op, when, .. })) => {
                    link.reduce(group, Some(&values(root)), target, op, when)
                }
                (Owners::All, Ends::Output(Output { link, target, op, when, .. })) => {
                    link.reduce(group, None, target, op, when)
                }
                (Owners::Parts, Ends::Output(Output { link, target, op, when, .. })) => {
                    link.reduce_scatter(group, target, op, when)
                }
                (Owners::One(root), Ends::Arrays(arrays)) => arrays.reduce(group, Some(&values(root)), by),
                (Owners::All, Ends::Arrays(arrays)) => arrays.reduce(group, None, by),
                (Owners::Parts, Ends::Arrays(arrays)) => arrays.parts(group),
            }
        }
        (
            Leg::Permute { owner, served },
            Ends::Input(Input { grid, link, source, from, when, here, region_of, .. }),
        ) => link.permute(grid, permutation(grid, owner, served, region_of), source, &here, from, when),
        (Leg::Permute { owner, served }, Ends::Output(Output { grid, link, target, op, when, region_of })) => {
            // The roles are those of an input, reversed: the owner of a rank's tile receives it.
            let (to, from) = permutation(grid, owner, served, region_of);
            link.permute_back(grid, to, from, target, op, when)
        }
        (Leg::Halo { reach } | Leg::Exchange { reach, .. }, Ends::Input(input)) => {
            let Input { grid, link, source, is_around, when, region_of, .. } = input;
            link.exchange(grid, reach, source, region_of, is_around, when)
        }
        (Leg::Halo { reach } | Leg::Exchange { reach, .. }, Ends::Output(output)) => {
            let Output { grid, link, target, op, when, region_of } = output;
            link.write_back(grid, reach, target, region_of, op, when)
        }
        (Leg::Exchange { packing, .. }, Ends::Arrays(arrays)) => arrays.exchange(*packing),
        (Leg::Shift(shift), Ends::Input(Input { link, source, when, here, .. })) => {
            link.shift(at.groups.along(&[shift.axis.0], None), shift.by, source, &here, when)
        }
        (leg, Ends::Arrays(_)) => unreachable!("no array is moved by {leg:?}; this is a bug in polyshard"),
    }
}
