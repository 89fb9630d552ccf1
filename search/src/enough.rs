//! How many ranks would do where nothing fits into the memory of those that there are.
//!
//! Numbers of ranks are gone through from the next one on. Of most ways to lay loops over them a bound in closed form says that nothing fits; the
//! others are priced as the search prices them. So the first number with a program that fits is the fewest, and a search with that many ranks
//! finds it. Where too much would have to be priced, or ranks are many, numbers are doubled from there on, and few ways of each are priced.

use crate::error::Enough;
use polyshard_machine::Machine;
use polyshard_program::Kernel;
use std::time::{Duration, Instant};

/// The most ranks that are looked at.
const MOST_RANKS: usize = 4096;

/// The most up to which they are counted one by one.
const MOST_COUNTED: usize = 512;

/// The most that is priced while ranks are counted up.
const MAX_PRICED: usize = 256;

/// The most ways that are priced of each number of ranks, while these are doubled.
const MAX_OF_EACH: usize = 8;

/// What is tried with numbers of ranks.
pub(crate) trait Trial {
    /// How loops may lie on them.
    type Way;

    /// The ways that a search with this many ranks looks at and one with fewer does not, on which something may fit; those first that need the least.
    fn ways(&self, ranks: usize) -> Vec<Self::Way>;

    /// How much is priced for a way.
    fn priced(&self, way: &Self::Way) -> usize;

    /// Whether something fits on one of the [`ways`](Self::ways) of this many ranks, which is proved; none if not all of it was compared.
    fn fits(&self, ranks: usize, way: &Self::Way) -> Option<bool>;

    /// Whether a search with this many ranks looks at all that one with fewer does.
    fn is_counted(&self, _ranks: usize) -> bool {
        true
    }

    /// Whether a search with this many ranks is refused, as it would compare too much.
    fn is_refused(&self, _ranks: usize) -> bool {
        false
    }
}

/// How many ranks would do, more than these. With more than `iterations` there is nothing for some of them. It takes this long at most, but for the
/// way that is tried last.
pub(crate) fn enough<T: Trial>(trial: &T, given: usize, iterations: usize, at_most: Option<Duration>) -> Enough {
    let most = most_ranks(iterations);
    let start = Instant::now();
    let is_later = |part: u32| at_most.is_some_and(|limit| start.elapsed() > limit / part);
    let found = |ranks: usize, is_sure: bool| match is_sure {
        _ if trial.is_refused(ranks) => Enough::NotFound(ranks - 1),
        true => Enough::Fewest(ranks),
        false => Enough::Found(ranks),
    };
    let first = given + 1;
    let (mut ranks, mut left, mut is_sure) = (first, MAX_PRICED, true);
    'counted: while ranks <= most.min(MOST_COUNTED) && trial.is_counted(ranks) {
        let ways = trial.ways(ranks);
        let priced: usize = ways.iter().map(|way| trial.priced(way)).sum();
        if priced > left || is_later(2) {
            break;
        }
        left -= priced;
        for way in &ways {
            if is_later(2) {
                break 'counted;
            }
            match trial.fits(ranks, way) {
                Some(true) => return found(ranks, is_sure),
                Some(false) => {}
                None => is_sure = false,
            }
        }
        ranks += 1;
    }
    if ranks > iterations && is_sure {
        return Enough::Never;
    }
    let mut tried = if ranks > first { Some(ranks - 1) } else { None };
    let mut left = Vec::new();
    let is_likely =
        |ranks: &usize| ranks.is_power_of_two() || ranks.is_multiple_of(given) && (ranks / given).is_power_of_two();
    for ranks in (ranks..=most).filter(is_likely) {
        if is_later(1) {
            break;
        }
        let mut ways = trial.ways(ranks).into_iter();
        if ways.by_ref().take(MAX_OF_EACH).any(|way| !is_later(1) && trial.fits(ranks, &way) == Some(true)) {
            return found(ranks, false);
        }
        tried = Some(ranks);
        left.push((ranks, ways));
    }
    // Where a limit says how long it may take, the rest of each is tried, too.
    for (ranks, mut ways) in left.into_iter().filter(|_| at_most.is_some()) {
        if ways.any(|way| !is_later(1) && trial.fits(ranks, &way) == Some(true)) {
            return found(ranks, false);
        }
    }
    tried.map_or(Enough::NotSought, Enough::NotFound)
}

/// The iterations of a kernel, of which each rank has one or more. Loops without any are on all ranks.
pub(crate) fn iterations(kernel: &Kernel) -> usize {
    kernel.vars().iter().map(|var| var.extent.max(1)).fold(1, usize::saturating_mul)
}

/// The most ranks that are looked at for this many iterations.
pub(crate) fn most_ranks(iterations: usize) -> usize {
    iterations.min(MOST_RANKS)
}

/// The machine with at least this many devices: more members of its outermost level. None if it cannot have them.
pub(crate) fn wide(machine: &Machine, devices: usize) -> Option<Machine> {
    let mut counts: Vec<usize> = machine.levels().iter().map(|level| level.count).collect();
    let inside: usize = counts[1..].iter().product();
    counts[0] = counts[0].max(devices.div_ceil(inside));
    machine.clone().with_counts(&counts).ok()
}
