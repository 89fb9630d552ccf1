//! Finding plans: from paths of the search, and without a search.

use super::digits::{self, Point};
use super::estimate::{Rules, Search};
use super::plan::Plan;
use super::problem::{Cost, Problem};
use super::search::Path;
use super::state::Move;
use super::step::PlanStep;
use crate::part::{common, extent};
use crate::{DistDim, DistType};
use polyshard_layout::Collective;
use std::cell::RefCell;

/// The number of states to examine for a path without a permutation, or one that takes less time than a known plan.
///
/// Problems of three axes need a few hundred at most; with very many small factors, an avoidable permutation is better
/// than a plan that takes seconds to find.
const PATIENCE: usize = 1_000;

/// The number of plans to compare by time.
const ALTERNATIVES: usize = 16;

impl Plan {
    /// Slices, all-to-alls, all-gathers, and a permutation where it cannot be avoided.
    pub(super) fn collectives(source: &DistType, target: &DistType, fused: bool) -> Self {
        if source == target {
            return Self::from_steps(source, target, Vec::new(), 0);
        }
        if source.is_empty() {
            return Self::exchange(source, target);
        }
        let problem = Problem::new(source, target);
        let search = |rules, slices, bound| {
            let patience = if rules == Rules::Free { PATIENCE } else { usize::MAX };
            Search { problem: &problem, rules, fused, slices, bound, patience }
        };
        // A path found without smaller intermediate tiles bounds the search with them.
        let spare = problem.spare(source.dims().iter().map(|dim| extent(&dim.parts)));
        let plain = if spare > 1 { search(Rules::Weak, false, None).run(|path| Some(path.cost + 1)) } else { None };
        let weak = search(Rules::Weak, true, plain).run(Some);
        let weak = weak.expect("types can be gathered and sliced: this is a bug in polyshard");
        let realized = |path: Path| Self::realized(&problem, &path.moves, fused, weak.cost);
        // A permutation never has to move a larger tile than the smaller of the two.
        let most = weak.cost + source.tile_len().min(target.tile_len()) as Cost;
        let free = search(Rules::Free, true, Some(most + 1)).run(realized);
        // Of two equally cheap plans, the one with fewer all-to-alls.
        let bound = match &free {
            Some(free) if free.total_cost() == weak.cost => return free.clone(),
            Some(free) => free.total_cost() + 1,
            None => most + 1,
        };
        let permuted = search(Rules::Permuted, true, Some(bound)).run(realized);
        // Where several primes meet in one dimension, it may be impossible to split digits anywhere on the path.
        permuted.or(free).unwrap_or_else(|| Self { weak_cost: weak.cost, ..Self::exchange(source, target) })
    }

    fn realized(problem: &Problem<'_>, moves: &[Move], fused: bool, weak_cost: Cost) -> Option<Self> {
        let (moves, points) = digits::points(problem, moves, fused)?;
        let mut steps: Vec<PlanStep> = Vec::new();
        let type_at = |point: &Point| {
            let dims = point.iter().zip(&problem.dims).map(|(parts, dim)| DistDim {
                tile: dim.size / extent(parts),
                parts: parts.clone(),
                size: dim.size,
            });
            DistType::new(problem.source.mesh(), dims.collect()).ok()
        };
        let mut from = problem.source.clone();
        let mut last_sliced = None;
        for (step, point) in moves.iter().zip(&points[1..]) {
            let to = type_at(point)?;
            let (op, sliced) = match step {
                Move::Slice(dim, _) => (Collective::Slice, Some(*dim)),
                Move::AllToAll { .. } => (Collective::AllToAll, None),
                Move::Permute => (Collective::Permute, None),
                Move::AllGather(_) => (Collective::AllGather, None),
            };
            // Slices of one dimension are merged into one step; if fused, all slices are.
            if op == Collective::Slice && last_sliced.is_some_and(|last| fused || Some(last) == sliced) {
                from = steps.pop().map_or(from, |step| step.from().clone());
            }
            last_sliced = sliced;
            if op != Collective::Permute || from != to {
                steps.push(PlanStep::new(op, from, to.clone())?);
            }
            from = to;
        }
        (from == *problem.target).then(|| Self::from_steps(problem.source, problem.target, steps, weak_cost))
    }

    /// Plans that may take less time than the one that moves fewest elements: the next ones of the search and, if a
    /// step may affect several dimensions, gathering everything and slicing it.
    pub(super) fn alternatives(source: &DistType, target: &DistType, fused: bool, weak_cost: Cost) -> Vec<Self> {
        let gathered = Self::gather_and_slice(source, target, weak_cost);
        let bound = gathered.as_ref().map(|plan| plan.total_cost() + 1);
        let found = RefCell::new(Vec::from_iter(gathered.filter(|_| fused)));
        if source.is_empty() || source == target {
            return found.into_inner();
        }
        let problem = Problem::new(source, target);
        for rules in [Rules::Free, Rules::Permuted] {
            let most = found.borrow().len() + ALTERNATIVES;
            let search = Search { problem: &problem, rules, fused, slices: true, bound, patience: PATIENCE };
            search.run(|path| {
                let mut found = found.borrow_mut();
                found.extend(Self::realized(&problem, &path.moves, fused, weak_cost));
                (found.len() >= most).then_some(())
            });
        }
        found.into_inner()
    }

    pub(super) fn exchange(source: &DistType, target: &DistType) -> Self {
        let step = PlanStep::new(Collective::Exchange, source.clone(), target.clone());
        let step = step.expect("an exchange has groups: this is a bug in polyshard");
        let (weak_cost, steps) = (step.elements(), if source == target { Vec::new() } else { vec![step] });
        Self::from_steps(source, target, steps, weak_cost)
    }

    /// Gathers at once everything that source and target cut differently, and slices it.
    fn gather_and_slice(source: &DistType, target: &DistType, weak_cost: Cost) -> Option<Self> {
        let dims = source.dims().iter().zip(target.dims()).map(|(before, after)| {
            let parts = common(&before.parts, &after.parts);
            DistDim { tile: before.size / extent(&parts), parts, size: before.size }
        });
        let gathered = DistType::new(source.mesh(), dims.collect()).ok()?;
        let mut steps = Vec::new();
        if gathered != *source {
            steps.push(PlanStep::new(Collective::AllGather, source.clone(), gathered.clone())?);
        }
        if gathered != *target {
            steps.push(PlanStep::new(Collective::Slice, gathered, target.clone())?);
        }
        Some(Self::from_steps(source, target, steps, weak_cost))
    }
}
