//! The steps of a path, and when they make a permutation unnecessary.
//!
//! Number the pieces of each dimension by digits of the ranks' coordinates. Pieces that have not moved keep the
//! source's digits. Pieces that will not move again may get the target's at once, whatever these are: of two ways to
//! number `n` pieces inside a group, an all-to-all turns one into the other, because a regular bipartite graph is a
//! union of perfect matchings. It cannot give one digit to two dimensions. So a path needs no permutation if and only
//! if, at each point, the digits that have not moved and those that will not move again are independent, and pieces
//! that never move are numbered correctly from the start. (Rink et al. bias the choice of axes instead, section 7.3.) A
//! state therefore records, per dimension, how coarse a cut is still the source's (`kept`) and which is already the
//! target's for good (`fixed`).
//!
//! A cut must fall between digits: of pieces numbered by a low digit of 2 and a high digit of 3, a factor 2 can be
//! removed, but not a factor 3 alone.

use super::estimate::{Rules, Search, Want};
use super::problem::{Cost, Dim, gather_cost};
use super::state::{DimState, Move, Stage, State};
use crate::factor::divisors;

type Next = Vec<(State, Move, Cost)>;

impl Search<'_> {
    pub(super) fn start(&self) -> State {
        let kept = |dim: &Dim| if self.tracks() { dim.source.pieces } else { 1 };
        let dims =
            self.problem.dims.iter().map(|dim| DimState { pieces: dim.source.pieces, kept: kept(dim), fixed: 1 });
        State { dims: dims.collect(), stage: Stage::Slicing, permuted: false }
    }

    /// Returns the successors of `state`, each with its cost; those that cost at least `least`, together with the steps
    /// that must follow, may be left out.
    pub(super) fn next(&self, state: &State, least: Option<Cost>) -> Next {
        let mut next = Next::new();
        self.finish(state, &mut next);
        if self.slices && state.stage == Stage::Slicing {
            self.add_slices(state, &mut next);
        }
        let tile = self.problem.tile(state.pieces());
        let follows = if tile < self.problem.target_tile() { self.problem.target_tile() } else { 0 };
        if least.is_some_and(|least| tile + follows >= least) {
            return next;
        }
        if self.fused {
            self.fused_moves(state, &mut next);
        }
        // With several primes, a dimension may have to lose one before it can get another, which takes two steps.
        if !self.fused || self.problem.primes.len() > 1 {
            self.moves(state, least, &mut next);
        }
        if self.rules == Rules::Permuted && !state.permuted {
            self.permute(state, &mut next);
        }
        next
    }

    /// Whether it matters which digits number the pieces, and not only how many pieces there are.
    fn tracks(&self) -> bool {
        match self.rules {
            Rules::Weak => false,
            // With a single prime, digits can be split everywhere.
            Rules::Permuted => self.problem.primes.len() > 1,
            Rules::Free => true,
        }
    }

    fn finish(&self, state: &State, next: &mut Next) {
        let right = |(dim_state, dim): (&DimState, &Dim)| {
            let target = dim.target.pieces;
            let own = || dim_state.kept.is_multiple_of(target) && dim.source.cut(target) == dim.target.cut(target);
            dim_state.pieces.is_multiple_of(target) && (!self.tracks() || dim_state.fixed == target || own())
        };
        let arrived = self.rules != Rules::Permuted || state.permuted;
        if !arrived || !state.dims.iter().zip(&self.problem.dims).all(right) {
            return;
        }
        let factors = state.pieces().zip(&self.problem.dims).map(|(pieces, dim)| pieces / dim.target.pieces);
        let mut factors: Vec<_> = factors.enumerate().filter(|&(_, factor)| factor > 1).collect();
        factors.sort_by_key(|&(_, factor)| factor);
        let tile = self.problem.tile(state.pieces());
        let price = gather_cost(tile, factors.iter().map(|&(_, factor)| factor), self.fused);
        let dims = self.problem.dims.iter().map(|dim| DimState { pieces: dim.target.pieces, kept: 1, fixed: 1 });
        let done = State { dims: dims.collect(), stage: Stage::Done, permuted: false };
        next.push((done, Move::AllGather(factors), price));
    }

    fn add_slices(&self, state: &State, next: &mut Next) {
        let spare = self.problem.spare(state.pieces());
        for &factor in self.problem.primes.iter().filter(|&&prime| spare.is_multiple_of(prime)) {
            for dim in 0..state.dims.len() {
                for dim_state in self.brought(state, dim, factor) {
                    let changes = [(dim, dim_state)];
                    if self.is_independent(state, &changes) {
                        next.push((state.with(Stage::Slicing, &changes), Move::Slice(dim, factor), 0));
                    }
                }
            }
        }
    }

    fn moves(&self, state: &State, least: Option<Cost>, next: &mut Next) {
        let want = self.want(state);
        let lacks =
            |dim: usize, pieces: usize| Cost::from(!pieces.is_multiple_of(self.problem.dims[dim].target.pieces));
        let spares =
            |dim: usize, pieces: usize| Cost::from(!self.problem.dims[dim].target.pieces.is_multiple_of(pieces));
        for (from, have) in state.pieces().enumerate() {
            for &factor in &divisors(have)[1..] {
                let Some(left) = self.removed(state, from, factor) else { continue };
                for (into, had) in state.pieces().enumerate().filter(|&(into, _)| into != from) {
                    // Most moves lead nowhere, and do not need a state.
                    let change = |count: &dyn Fn(usize, usize) -> Cost, all: Cost| {
                        all - count(from, have) - count(into, had)
                            + count(from, have / factor)
                            + count(into, had * factor)
                    };
                    let then =
                        Want { lacking: change(&lacks, want.lacking), surplus: change(&spares, want.surplus), ..want };
                    let ahead = self.ahead_moving(&then, state.permuted);
                    if ahead.is_none_or(|ahead| least.is_some_and(|least| want.tile + ahead >= least)) {
                        continue;
                    }
                    for dim_state in self.brought(state, into, factor) {
                        let changes = [(from, left), (into, dim_state)];
                        if self.is_independent(state, &changes) {
                            let step = Move::AllToAll { out: vec![(from, factor)], into: vec![(into, factor)] };
                            next.push((state.with(Stage::Moving, &changes), step, want.tile));
                        }
                    }
                }
            }
        }
    }

    /// All-to-alls between any dimensions at once after which no dimension lacks a factor.
    fn fused_moves(&self, state: &State, next: &mut Next) {
        let enough = |(now, dim): (usize, &Dim)| now.is_multiple_of(dim.target.pieces);
        if !state.pieces().zip(&self.problem.dims).all(enough) {
            self.fuse(state, state.pieces().product(), &mut Vec::new(), next);
        }
    }

    /// Chooses the number of pieces of dimension `chosen.len()`, when the remaining dimensions get `pieces`.
    fn fuse(&self, state: &State, pieces: usize, chosen: &mut Vec<(usize, DimState)>, next: &mut Next) {
        let nth = chosen.len();
        let Some(dim) = self.problem.dims.get(nth) else {
            if pieces == 1 {
                self.add_fused(state, chosen, next);
            }
            return;
        };
        let (now, step) = (state.dims[nth].pieces, dim.target.pieces);
        if !pieces.is_multiple_of(step) {
            return;
        }
        for more in divisors(pieces / step) {
            let wanted = step * more;
            let options = if wanted == now {
                vec![state.dims[nth]]
            } else if wanted.is_multiple_of(now) {
                self.brought(state, nth, wanted / now)
            } else if now.is_multiple_of(wanted) {
                self.removed(state, nth, now / wanted).into_iter().collect()
            } else {
                Vec::new()
            };
            for dim_state in options {
                chosen.push((nth, dim_state));
                self.fuse(state, pieces / wanted, chosen, next);
                chosen.pop();
            }
        }
    }

    fn add_fused(&self, state: &State, chosen: &[(usize, DimState)], next: &mut Next) {
        if !self.is_independent(state, chosen) {
            return;
        }
        let ratio = |more: usize, less: usize| (more > less).then(|| more / less);
        let now = |dim: usize| state.dims[dim].pieces;
        let out = chosen.iter().filter_map(|&(dim, dim_state)| Some((dim, ratio(now(dim), dim_state.pieces)?)));
        let into = chosen.iter().filter_map(|&(dim, dim_state)| Some((dim, ratio(dim_state.pieces, now(dim))?)));
        let step = Move::AllToAll { out: out.collect(), into: into.collect() };
        next.push((state.with(Stage::Moving, chosen), step, self.problem.tile(state.pieces())));
    }

    fn permute(&self, state: &State, next: &mut Next) {
        let renumbered = |(dim_state, dim): (&DimState, &Dim)| {
            let cuts = divisors(dim_state.pieces).into_iter().rev();
            let fixed = if self.tracks() { cuts.into_iter().find(|&cut| dim.target.cut(cut).is_some()) } else { None };
            DimState { pieces: dim_state.pieces, kept: 1, fixed: fixed.unwrap_or(1) }
        };
        let dims = state.dims.iter().zip(&self.problem.dims).map(renumbered).collect();
        let permuted = State { dims, stage: Stage::Moving, permuted: true };
        next.push((permuted, Move::Permute, self.problem.tile(state.pieces())));
    }

    /// Whether all known digits are independent after these changes, given that they are before.
    fn is_independent(&self, state: &State, changes: &[(usize, DimState)]) -> bool {
        if self.rules != Rules::Free {
            return true;
        }
        let known = |dim: usize| {
            let changed = changes.iter().find(|(changed, _)| *changed == dim);
            let dim_state = changed.map_or(&state.dims[dim], |(_, dim_state)| dim_state);
            let Dim { source, target, .. } = &self.problem.dims[dim];
            let (kept, fixed) = (dim_state.kept, dim_state.fixed);
            let known = if fixed >= kept { target.cut(fixed) } else { source.cut(kept) };
            known.expect("a cut that a state has comes apart: this is a bug in polyshard")
        };
        changes.iter().all(|&(changed, _)| {
            let parts = known(changed);
            let others = (0..state.dims.len()).filter(|&dim| dim != changed).flat_map(known);
            parts.is_empty() || others.into_iter().all(|other| parts.iter().all(|part| part.is_independent_of(other)))
        })
    }

    /// The states of dimension `dim` after a factor is added; none if the factor does not divide.
    fn brought(&self, state: &State, dim: usize, factor: usize) -> Vec<DimState> {
        let (now, dim) = (state.dims[dim], &self.problem.dims[dim]);
        let pieces = now.pieces * factor;
        if !dim.size.is_multiple_of(pieces) {
            return Vec::new();
        }
        let mut options = vec![DimState { pieces, ..now }];
        let numbers_are_final = match self.rules {
            Rules::Weak => false,
            Rules::Permuted => self.tracks() && state.permuted,
            Rules::Free => true,
        };
        if numbers_are_final && let Some(fixed) = fixed(&now, pieces, dim) {
            options.push(DimState { pieces, fixed, ..now });
        }
        options
    }

    /// The state of dimension `dim` after its lowest digits, `factor` values together, are removed.
    fn removed(&self, state: &State, dim: usize, factor: usize) -> Option<DimState> {
        let now = state.dims[dim];
        let pieces = now.pieces / factor;
        if !self.tracks() {
            return Some(DimState { pieces, ..now });
        }
        if !pieces.is_multiple_of(now.fixed) {
            return None;
        }
        if pieces.is_multiple_of(now.kept) {
            return Some(DimState { pieces, ..now });
        }
        let apart = now.kept.is_multiple_of(pieces) && self.problem.dims[dim].source.cut(pieces).is_some();
        apart.then_some(DimState { pieces, kept: pieces, ..now })
    }
}

/// The cut that is finally the target's once a dimension gets `pieces` pieces.
fn fixed(now: &DimState, pieces: usize, dim: &Dim) -> Option<usize> {
    let target = dim.target.pieces;
    let cut = if target.is_multiple_of(pieces) {
        pieces
    } else if pieces.is_multiple_of(target) {
        target
    } else {
        return None;
    };
    let known = now.kept.max(now.fixed);
    // Digits added earlier that are to move again cannot be the target's.
    let new = cut > known && cut.is_multiple_of(known) && known == now.pieces && dim.target.cut(cut).is_some();
    // The source's digits above the added ones stay, so they must be the target's.
    let right = now.kept <= now.fixed || dim.source.cut(now.kept) == dim.target.cut(now.kept);
    (new && right).then_some(cut)
}
