//! The shortest path from the source's piece counts to the target's.
//!
//! Every path has the normal form slices, all-to-alls, all-gathers, which never needs more memory than the larger of
//! the two tiles and costs no more (Rink et al., lemma 6.5). It is found by A*, with the estimate of `estimate`. Its time
//! depends on the prime factors of the mesh, not on its ranks. The steps are in `moves`.

use super::estimate::{Rules, Search};
use super::problem::Cost;
use super::state::{Move, Stage, State};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A cheapest path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) cost: Cost,
    pub(super) moves: Vec<Move>,
}

struct Node {
    state: State,
    before: Option<(usize, Move)>,
}

impl Search<'_> {
    /// Returns the result of `accept` for the cheapest path below the bound for which there is one.
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
                // Of equal estimates, the path with the higher cost so far, hence further along, is first, and then the
                // one found last, which is deeper.
                queue.push((Reverse(cost + ahead), cost, nodes.len()));
                nodes.push(Node { state, before: Some((nth, step)) });
            }
        }
        None
    }

    /// How many paths to one state are followed. Intermediate digits are chosen at the end, and may exist for one path
    /// but not for another.
    fn ways(&self) -> usize {
        match self.rules {
            Rules::Weak => 1,
            Rules::Permuted => 2,
            Rules::Free => 3,
        }
    }
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
