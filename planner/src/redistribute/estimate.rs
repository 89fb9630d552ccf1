//! The goal of a search, and a lower bound of the remaining cost of a state: the estimate counts the dimensions that
//! still lack a factor or have a surplus one.

use super::problem::{Cost, Problem};
use super::state::{Stage, State};
use crate::factor::gcd;

/// The goal of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// The target's piece counts, on any ranks.
    Weak,
    /// The target, with one permutation, whose cost the path includes.
    Permuted,
    /// The target, without a permutation.
    Free,
}

/// A search for a path.
pub(super) struct Search<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) rules: Rules,
    /// Whether one operation may move digits between several pairs of dimensions.
    pub(super) fused: bool,
    /// Whether tiles may be cut smaller than the target's, by factors that replicate.
    pub(super) slices: bool,
    /// Paths of this cost or more are not followed.
    pub(super) bound: Option<Cost>,
    /// The number of states to examine before giving up.
    pub(super) patience: usize,
}

impl Search<'_> {
    /// A lower bound of the remaining cost; none if the target cannot be reached.
    pub(super) fn ahead(&self, state: &State) -> Option<Cost> {
        if state.stage == Stage::Done {
            return Some(0);
        }
        let want = self.want(state);
        let spare = self.problem.spare(state.pieces());
        if state.stage == Stage::Moving || spare == 1 {
            return self.ahead_moving(&want, state.permuted);
        }
        let target = self.problem.target_tile();
        let permute = Cost::from(self.rules == Rules::Permuted && !state.permuted);
        // Missing factors may be sliced for free. A surplus is moved, in tiles of the target's size, or gathered, at
        // the same cost.
        if want.surplus == 0 {
            return Some(permute * (want.tile / spare as Cost));
        }
        let moved = Cost::from(!spare.is_multiple_of(want.missing));
        let (_, gathers) = self.least_gathers(want.tile.min(target - 1));
        let gathered = gathers + (moved + permute) * (want.tile / spare as Cost);
        let moved = (if self.fused { 1 } else { want.surplus } + permute) * target;
        Some(gathered.min(moved))
    }

    /// The same bound once all slices are made, so that tiles only grow.
    pub(super) fn ahead_moving(&self, want: &Want, permuted: bool) -> Option<Cost> {
        let (Want { tile, lacking, surplus, .. }, target) = (*want, self.problem.target_tile());
        if tile > target {
            return None;
        }
        let (gathers, cost) = self.least_gathers(tile);
        // Gathering more dimensions than necessary costs more than moving the surplus into the others.
        let out = if gathers > 0 && self.fused { 0 } else { surplus.saturating_sub(gathers) };
        let moves = lacking.max(out);
        let moves = if self.fused { moves.min(1) } else { moves };
        let permute = Cost::from(self.rules == Rules::Permuted && !permuted);
        Some((moves + permute) * tile + cost)
    }

    fn least_gathers(&self, tile: Cost) -> (Cost, Cost) {
        let target = self.problem.target_tile();
        match self.fused {
            true if tile < target => (1, target),
            true => (0, 0),
            false => self.problem.least_gathers(tile),
        }
    }

    /// Counts the missing and surplus factors of a state.
    pub(super) fn want(&self, state: &State) -> Want {
        let mut want = Want { tile: self.problem.tile(state.pieces()), lacking: 0, surplus: 0, missing: 1 };
        for (now, dim) in state.pieces().zip(&self.problem.dims) {
            let wanted = dim.target.pieces;
            want.missing = want.missing.saturating_mul(wanted / gcd(now, wanted));
            want.lacking += Cost::from(!now.is_multiple_of(wanted));
            want.surplus += Cost::from(!wanted.is_multiple_of(now));
        }
        want
    }
}

/// The distance of a state from the target.
#[derive(Clone, Copy)]
pub(super) struct Want {
    pub(super) tile: Cost,
    /// Dimensions that lack a factor.
    pub(super) lacking: Cost,
    /// Dimensions that have a surplus factor.
    pub(super) surplus: Cost,
    /// The product of the factors that dimensions lack.
    pub(super) missing: usize,
}
