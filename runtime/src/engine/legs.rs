//! Execution of legs: between the owners' shards and tiles, in both directions, and between two arrays.

use super::table::Coordinates;
use crate::groups::Groups;
use crate::redistribute::moving::Moving;
use crate::{DistArray, Element, Grid, OutTile, ReduceOp, Region, Result, Shards, Tile};
use polyshard_program::{Expr, Leg, Owners};
use smallvec::SmallVec;
use std::fmt;

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
    Arrays(&'e mut Moving<'m, T>),
}

/// Where a leg takes the region of an input from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The shards of its owners.
    Shards,
    /// Tiles: those that the previous leg filled, or a neighbour's in the previous iteration.
    Tiles,
    /// Either, without waiting.
    Ahead,
}

/// A tile into which a leg fetches a region.
pub(crate) struct Input<'e, T: Element> {
    pub(crate) grid: &'e Grid<'e>,
    pub(crate) tile: &'e mut Tile<T>,
    pub(crate) source: Shards<'e, T>,
    pub(crate) from: Source,
    /// Whether the rank's own part is read in place, with the tile around it.
    pub(crate) is_around: bool,
    /// The region of this rank, and that of any rank.
    pub(crate) here: Region,
    pub(crate) region_of: &'e dyn Fn(&[i64]) -> Region,
}

/// A tile from which a leg sends a region.
pub(crate) struct Output<'e, T: Element> {
    pub(crate) grid: &'e Grid<'e>,
    pub(crate) tile: &'e mut OutTile<T>,
    pub(crate) target: &'e mut DistArray<T>,
    pub(crate) op: ReduceOp,
    /// Whether the transfer only begins.
    pub(crate) is_ahead: bool,
    pub(crate) region_of: &'e dyn Fn(&[i64]) -> Region,
}

/// The values of expressions for the rank at these coordinates, where loops have these counters.
pub(crate) fn values_at(exprs: &[Expr], coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]> {
    exprs.iter().map(|expr| expr.eval(coordinates, counters)).collect()
}

/// Coordinates of ranks, as expressions or as functions.
pub(crate) trait FindRank: fmt::Debug {
    /// The coordinates for the rank at these, where loops have these counters.
    fn find(&self, coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]>;
}

impl FindRank for Vec<Expr> {
    fn find(&self, coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]> {
        values_at(self, coordinates, counters)
    }
}

impl FindRank for Coordinates<'_> {
    fn find(&self, coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]> {
        self.at(coordinates, counters)
    }
}

/// Carries out a leg.
///
/// # Errors
/// If there is too little memory, or another rank failed.
///
/// # Panics
/// If no array is moved by such a leg: a bug in polyshard.
pub(crate) fn carry_out<T: Element, C: FindRank>(leg: &Leg<C>, at: &At<'_>, ends: Ends<'_, '_, T>) -> Result<()> {
    let values = |of: &C| of.find(at.coordinates, at.counters);
    let permutation = |grid: &Grid<'_>, owner: &C, served: &C, region_of: &dyn Fn(&[i64]) -> Region| {
        grid.permutation(|at_rank: &[i64]| owner.find(at_rank, at.counters), &values(served), region_of)
    };
    match (leg, ends) {
        // Data that the rank owns itself.
        (Leg::InPlace | Leg::Copy | Leg::Collective { owners: Owners::All, .. }, Ends::Input(input)) => {
            let Input { tile, source, here, .. } = input;
            match (input.from, leg) {
                (Source::Ahead, _) => tile.begin_own(source, &here),
                (_, Leg::InPlace) => tile.hold(&here),
                _ => tile.copy(source, &here),
            }
            Ok(())
        }
        (Leg::Copy, Ends::Output(output)) => {
            output.tile.combine_local(output.target, output.op);
            Ok(())
        }
        // A shift of sums has been received where these sums began.
        (Leg::InPlace | Leg::Shift(_), Ends::Output(_)) => Ok(()),
        (Leg::Collective { axes, owners, .. }, ends) => {
            let group = at.groups.along(axes, leg.stages());
            match (owners, ends) {
                (Owners::One(root), Ends::Input(Input { tile, source, from, here, .. })) => match from {
                    Source::Shards => tile.broadcast(group, &values(root), source, &here),
                    Source::Tiles => tile.broadcast_held(group, &values(root), source, &here),
                    Source::Ahead => tile.begin_broadcast(group, &values(root), source, &here),
                },
                (Owners::Parts | Owners::All, Ends::Input(Input { tile, source, from, here, .. })) => match from {
                    Source::Shards | Source::Tiles => tile.all_gather(group, source, &here),
                    Source::Ahead => tile.begin_all_gather(group, source, &here),
                },
                (owners, Ends::Output(Output { tile, target, op, is_ahead, .. })) => match (owners, is_ahead) {
                    (Owners::One(root), false) => tile.reduce(group, &values(root), target, op),
                    (Owners::One(root), true) => tile.begin_reduce(group, &values(root), target, op),
                    (Owners::All, false) => tile.all_reduce(group, target, op),
                    (Owners::All, true) => tile.begin_all_reduce(group, target, op),
                    (Owners::Parts, false) => tile.reduce_scatter(group, target, op),
                    (Owners::Parts, true) => tile.begin_reduce_scatter(group, target, op),
                },
                (Owners::One(root), Ends::Arrays(moving)) => moving.reduce(group, &values(root)),
                (Owners::All, Ends::Arrays(moving)) => moving.all_reduce(group),
                (Owners::Parts, Ends::Arrays(moving)) => match moving.closes_sums() {
                    false => moving.all_gather(group),
                    true => moving.reduce_scatter(group),
                },
            }
        }
        (Leg::Permute { owner, served }, Ends::Input(input)) => {
            let Input { grid, tile, source, from, here, region_of, .. } = input;
            let (owner, served) = permutation(grid, owner, served, region_of);
            match from {
                Source::Shards => tile.permute(grid, owner, served, source, &here),
                Source::Tiles => tile.permute_held(grid, owner, served, source, &here),
                Source::Ahead => tile.begin_permute(grid, owner, served, source, &here),
            }
        }
        (Leg::Permute { owner, served }, Ends::Output(output)) => {
            let Output { grid, tile, target, op, is_ahead, region_of } = output;
            // The roles are those of an input, reversed: the owner of a rank's tile receives it.
            let (to, from) = permutation(grid, owner, served, region_of);
            match is_ahead {
                false => tile.permute_back(grid, to, from, target, op),
                true => tile.begin_permute_back(grid, to, from, target),
            }
        }
        (Leg::Halo { reach } | Leg::Exchange { reach }, Ends::Input(input)) => {
            let Input { grid, tile, source, from, is_around, region_of, .. } = input;
            match (from, is_around) {
                (Source::Ahead, true) => tile.begin_halo(grid, reach, source, region_of),
                (Source::Ahead, false) => tile.begin_exchange(grid, reach, source, region_of),
                (_, true) => tile.halo(grid, reach, source, region_of),
                (_, false) => tile.exchange(grid, reach, source, region_of),
            }
        }
        (Leg::Halo { reach } | Leg::Exchange { reach }, Ends::Output(output)) => {
            let Output { grid, tile, target, op, is_ahead, region_of } = output;
            match is_ahead {
                false => tile.write_back(grid, reach, target, region_of, op),
                true => tile.begin_write_back(grid, reach, target, region_of),
            }
        }
        (Leg::Exchange { .. }, Ends::Arrays(moving)) => match moving.closes_sums() {
            false => moving.exchange(),
            true => moving.add_up(),
        },
        (Leg::Shift(shift), Ends::Input(Input { tile, source, from, here, .. })) => {
            let group = at.groups.along(&[shift.axis.0], None);
            match from {
                Source::Ahead => tile.begin_shift(group, shift.by, source, &here),
                Source::Shards | Source::Tiles => tile.shift(group, shift.by, source, &here),
            }
        }
        (leg, Ends::Arrays(_)) => unreachable!("no array is moved by {leg:?}; this is a bug in polyshard"),
    }
}
