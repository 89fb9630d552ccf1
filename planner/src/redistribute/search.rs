//! The shortest path from the source's piece counts to the target's.
//!
//! Every path has the normal form slices, all-to-alls, all-gathers, which never needs more memory than the
//! larger of the two tiles and loses nothing (Rink et al., lemma 6.5). It is found by A*: the estimate counts
//! the dimensions that still lack a factor or have one too many. How long it takes depends on the prime
//! factors of the mesh, not on its ranks. Which steps there are is said in `moves`.

use super::moves::{Move, Stage, State};
use super::problem::{Cost, Problem};
use crate::factor::gcd;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// What a path must arrive at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// The target's piece counts, on whatever ranks.
    Weak,
    /// The target, with one permutation on the way, which the path pays for.
    Permuted,
    /// The target, without a permutation.
    Free,
}

/// A cheapest path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) cost: Cost,
    pub(super) moves: Vec<Move>,
}

/// A search for a path.
pub(super) struct Search<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) rules: Rules,
    /// Whether one operation may move digits between several pairs of dimensions.
    pub(super) fused: bool,
    /// Whether tiles may be cut smaller than the target's, by factors that replicate.
    pub(super) slices: bool,
    /// A path that costs as much is of no use.
    pub(super) bound: Option<Cost>,
    /// States to look at before giving up.
    pub(super) patience: usize,
}

struct Node {
    state: State,
    before: Option<(usize, Move)>,
}

impl Search<'_> {
    /// Returns what `accept` makes of a cheapest path that it takes, if there is one cheaper than the bound.
    pub(super) fn run<T>(&self, accept: impl Fn(Path) -> Option<T>) -> Option<T> {
        let mut nodes = vec![Node { state: self.start(), before: None }];
        let mut reached: HashMap<State, (Cost, usize)> = HashMap::from([(self.start(), (0, 1))]);
        let mut queue = BinaryHeap::from([(Reverse(0), 0, 0)]);
        let mut looked_at = 0;
        while let Some((_, cost, nth)) = queue.pop() {
            if nodes[nth].state.stage == Stage::Done {
                match accept(Path { cost, moves: walk_back(&nodes, nth) }) {
                    None => continue,
                    accepted => return accepted,
                }
            }
            if reached[&nodes[nth].state].0 < cost && self.ways() == 1 {
                continue;
            }
            looked_at += 1;
            if looked_at > self.patience {
                return None;
            }
            let least = self.bound.map(|bound| bound.saturating_sub(cost));
            for (state, step, price) in self.next(&nodes[nth].state, least) {
                let cost = cost + price;
                let Some(ahead) = self.ahead(&state) else { continue };
                if self.bound.is_some_and(|bound| cost + ahead >= bound) {
                    continue;
                }
                if state.stage != Stage::Done {
                    match reached.get_mut(&state) {
                        Some((known, ways)) if *known <= cost => {
                            if *ways == self.ways() {
                                continue;
                            }
                            *ways += 1;
                        }
                        Some(known) => *known = (cost, 1),
                        None => {
                            reached.insert(state.clone(), (cost, 1));
                        }
                    }
                }
                // Of equal estimates, the path that has paid more, hence is further along, comes first, and
                // then the one found last: it is deeper.
                queue.push((Reverse(cost + ahead), cost, nodes.len()));
                nodes.push(Node { state, before: Some((nth, step)) });
            }
        }
        None
    }

    /// How many paths to one state are followed. Digits that come and go are chosen in the end, and there may be none
    /// for the one path where there are for another.
    fn ways(&self) -> usize {
        match self.rules {
            Rules::Weak => 1,
            Rules::Permuted => 2,
            Rules::Free => 3,
        }
    }

    /// A lower bound of what is still to pay; none if the target cannot be reached.
    fn ahead(&self, state: &State) -> Option<Cost> {
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
        // What is lacking may be sliced, for nothing. A surplus is moved, in tiles of the target's size, or
        // gathered, which costs as much.
        if want.surplus == 0 {
            return Some(permute * (want.tile / spare as Cost));
        }
        let moved = Cost::from(!spare.is_multiple_of(want.missing));
        let (_, gathers) = self.least_gathers(want.tile.min(target - 1));
        let gathered = gathers + (moved + permute) * (want.tile / spare as Cost);
        let moved = (if self.fused { 1 } else { want.surplus } + permute) * target;
        Some(gathered.min(moved))
    }

    /// The same once all slices are made, so that tiles only grow.
    pub(super) fn ahead_moving(&self, want: &Want, permuted: bool) -> Option<Cost> {
        let (Want { tile, lacking, surplus, .. }, target) = (*want, self.problem.target_tile());
        if tile > target {
            return None;
        }
        let (gathers, cost) = self.least_gathers(tile);
        // Gathering more dimensions than need be costs more than to move what is left over into the others.
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

    /// Counts what a state lacks.
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

/// How far a state is from the target.
#[derive(Clone, Copy)]
pub(super) struct Want {
    pub(super) tile: Cost,
    /// Dimensions that lack a factor.
    pub(super) lacking: Cost,
    /// Dimensions that have a factor too many.
    pub(super) surplus: Cost,
    /// The product of the factors that dimensions lack.
    pub(super) missing: usize,
}

fn walk_back(nodes: &[Node], end: usize) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut at = end;
    while let Some((before, step)) = &nodes[at].before {
        moves.push(step.clone());
        at = *before;
    }
    moves.reverse();
    moves
}
