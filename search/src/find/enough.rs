//! How many ranks would do where nothing fits into the memory of those that there are.
//!
//! Numbers of ranks are gone through from the next one on. Of most grids a bound in closed form says that nothing on them fits; the others are
//! priced as the search prices them. So the first number with a schedule that fits is the fewest, and a search with that many ranks finds
//! it. Where too many grids would have to be priced, or ranks are many, numbers are doubled from there on, and few grids of each are priced.

use super::Search;
use crate::error::{Enough, SearchError};
use crate::found::Found;
use crate::grid::{self, Bounds};
use crate::space::Space;
use crate::variant::Grid;
use polyshard_machine::Machine;
use polyshard_planner::cost::Prices;
use polyshard_program::Kernel;
use std::time::Instant;

/// The most ranks that are looked at.
const MOST_RANKS: usize = 4096;

/// The most up to which they are counted one by one.
const MOST_COUNTED: usize = 512;

/// The most grids that are priced while ranks are counted up.
const MOST_PRICED: usize = 256;

/// The most that are priced of each number of ranks, while these are doubled.
const MOST_OF_EACH: usize = 8;

impl Search<'_> {
    /// The same error, with the number of ranks that would do if it is one of memory. It takes as long as a search may at most.
    pub(crate) fn with_enough(&self, mut error: SearchError) -> SearchError {
        if let SearchError::Memory { memory, enough, .. } = &mut error {
            *enough = self.enough(*memory);
        }
        error
    }

    fn enough(&self, memory: u64) -> Enough {
        if self.mesh.is_some() {
            return Enough::LargerMesh;
        }
        let Ok(kernel) = self.schedule.kernel() else { return Enough::NotSought };
        // A rank has something of each tensor.
        let tensors = kernel.tensors().filter(|tensor| !tensor.shape.contains(&0)).count();
        if memory < (tensors * kernel.dtype().size()) as u64 {
            return Enough::Never;
        }
        let iterations = kernel.vars().iter().map(|var| var.extent.max(1)).fold(1, usize::saturating_mul);
        let most = iterations.min(MOST_RANKS);
        let Some(machine) = wide(self.machine, most.max(self.ranks)) else { return Enough::NotSought };
        let search = Search { machine: &machine, ..self.clone() };
        let (prices, bounds) = (Prices::new(&machine), Bounds::new(kernel, &machine, most, []));
        let trial = Trial { search, kernel, memory, prices, bounds };
        let start = Instant::now();
        let is_later = |part: u32| self.limits.at_most.is_some_and(|limit| start.elapsed() > limit / part);
        let (mut ranks, mut left) = (self.ranks + 1, MOST_PRICED);
        while ranks <= most.min(MOST_COUNTED) {
            let grids = trial.grids(ranks);
            if grids.len() > left || is_later(2) {
                break;
            }
            left -= grids.len();
            if grids.iter().any(|grid| trial.fits(grid)) {
                return if trial.is_comparable(ranks) { Enough::Fewest(ranks) } else { Enough::NotFound(ranks - 1) };
            }
            ranks += 1;
        }
        if ranks > iterations {
            return Enough::Never;
        }
        let mut tried = ranks - 1;
        ranks = ranks.next_power_of_two();
        while ranks <= most && !is_later(1) && trial.is_comparable(ranks) {
            if trial.grids(ranks).iter().take(MOST_OF_EACH).any(|grid| trial.fits(grid)) {
                return Enough::Found(ranks);
            }
            tried = ranks;
            ranks *= 2;
        }
        Enough::NotFound(tried)
    }
}

/// A search for a schedule that fits, whatever it takes.
struct Trial<'a> {
    search: Search<'a>,
    kernel: &'a Kernel,
    memory: u64,
    prices: Prices<'a>,
    bounds: Bounds<'a>,
}

impl Trial<'_> {
    /// The grids of exactly this many ranks on which something may fit, those that need the least first.
    fn grids(&self, ranks: usize) -> Vec<Grid> {
        let with_bound = |grid: Grid| (self.bounds.memory(&grid), grid);
        let mut grids: Vec<(f64, Grid)> = grid::exactly(self.kernel, ranks).into_iter().map(with_bound).collect();
        grids.retain(|(bytes, _)| *bytes <= self.memory as f64);
        grids.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
        grids.into_iter().map(|(_, grid)| grid).collect()
    }

    /// Whether a schedule on this grid fits, which is proved.
    fn fits(&self, grid: &Grid) -> bool {
        let space = Space { kernel: self.kernel, homes: &[], rotates: self.bounds.sends() };
        let mut found = Found::new(self.memory, f64::INFINITY);
        let priced =
            self.search.variants(&space, &(grid.clone(), None), |variant| found.add(&space, variant, &self.prices));
        priced.is_ok() && found.proved(&self.prices).is_ok_and(|program| program.is_some())
    }

    /// Whether a search with this many ranks compares all grids.
    fn is_comparable(&self, ranks: usize) -> bool {
        grid::all(self.kernel, ranks).is_some()
    }
}

/// The machine with at least this many devices: more members of its outermost level. None if it cannot have them.
fn wide(machine: &Machine, devices: usize) -> Option<Machine> {
    let mut counts: Vec<usize> = machine.levels().iter().map(|level| level.count).collect();
    let inside: usize = counts[1..].iter().product();
    counts[0] = counts[0].max(devices.div_ceil(inside));
    machine.clone().with_counts(&counts).ok()
}
