//! How many ranks would be enough for one kernel. Each number is tried with the grids of exactly that many ranks, which
//! are all that a search with fewer ranks has not examined.

use super::Search;
use crate::enough::{Trial, enough, iterations, most_ranks, wide};
use crate::error::Enough;
use crate::found::Found;
use crate::grid::{self, Bounds};
use crate::space::Space;
use crate::variant::Grid;
use polyshard_planner::cost::Prices;
use polyshard_program::Kernel;
use std::cmp::{Ordering, Reverse};
use std::time::Instant;

impl Search<'_> {
    /// The number of ranks that would be enough. The search that began at `start` keeps its time limit.
    pub(crate) fn enough(&self, memory: u64, start: Instant) -> Enough {
        if self.mesh.is_some() {
            return Enough::LargerMesh;
        }
        let Ok(kernel) = self.schedule.kernel() else { return Enough::NotSought };
        // A rank holds at least one element of each tensor.
        let tensors = kernel.tensors().filter(|tensor| !tensor.shape.contains(&0)).count();
        if memory < (tensors * kernel.dtype().size()) as u64 {
            return Enough::Never;
        }
        let iterations = iterations(kernel);
        let most = most_ranks(iterations);
        let Some(machine) = wide(self.machine, most.max(self.ranks)) else { return Enough::NotSought };
        let search = Search { machine: &machine, ..self.clone() };
        let (prices, bounds) = (Prices::new(&machine), Bounds::new(kernel, &machine, most, []));
        let until = self.limits.until(start, 4);
        let trial = OfKernel { search, kernel, memory, prices, bounds, until };
        enough(&trial, self.ranks, iterations, self.limits.since(start).at_most)
    }
}

/// A search for a schedule that fits, however slow.
struct OfKernel<'a> {
    search: Search<'a>,
    kernel: &'a Kernel,
    memory: u64,
    prices: Prices<'a>,
    bounds: Bounds<'a>,
    until: Option<Instant>,
}

impl Trial for OfKernel<'_> {
    type Way = Grid;

    fn ways(&self, ranks: usize) -> Vec<Grid> {
        // Among equal bounds, few words mean small tiles, and sums over several ranks need more memory.
        let with_bound = |grid: Grid| ([self.bounds.memory(&grid), self.bounds.words(&grid)], Reverse(grid));
        let mut grids: Vec<_> = grid::exactly(self.kernel, ranks).into_iter().map(with_bound).collect();
        grids.retain(|([bytes, _], _)| *bytes <= self.memory as f64);
        grids.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
        grids.into_iter().map(|(_, Reverse(grid))| grid).collect()
    }

    fn fits(&self, _: usize, grid: &Grid) -> Option<bool> {
        let space = Space { kernel: self.kernel, homes: &[], rotates: self.bounds.sends() };
        let mut found = Found::new(self.memory, f64::INFINITY);
        (found.until, found.may_end) = ([self.until; 2], true);
        let priced = self.search.variants(&space, &(grid.clone(), None), |variant| match found.candidates.is_empty() {
            true => found.add(&space, variant, &self.prices),
            false => Ok(()),
        });
        let fits = priced.is_ok() && found.proved(&self.prices).is_ok_and(|program| program.is_some());
        (fits || !found.is_cut).then_some(fits)
    }

    fn is_refused(&self, ranks: usize) -> bool {
        grid::all(self.kernel, ranks).is_none()
    }
}
