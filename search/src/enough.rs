//! How many ranks would be enough if nothing fits into the memory of the given ones.
//!
//! Numbers of ranks are tried in increasing order. A closed-form bound rules out most ways to lay loops over them; the
//! others are priced as the search prices them. So the first number with a program that fits is the minimum, and a
//! search with that many ranks finds the program. Once too much would have to be priced, or ranks are many, numbers are
//! doubled instead, and only a few ways of each are priced.

use crate::error::Enough;
use polyshard_machine::Machine;
use polyshard_program::Kernel;
use std::time::{Duration, Instant};

/// The largest number of ranks that is tried.
const MOST_RANKS: usize = 4096;

/// The largest number up to which numbers are tried one by one.
const MOST_COUNTED: usize = 512;

/// The maximum number of programs that are priced while numbers are tried one by one.
const MAX_PRICED: usize = 256;

/// The maximum number of ways that are priced for each number of ranks while numbers are doubled.
const MAX_OF_EACH: usize = 8;

/// A search that can be tried with different numbers of ranks.
pub(crate) trait Trial {
    /// A way to lay loops over the ranks.
    type Way;

    /// The ways that a search examines with this many ranks but not with fewer, and on which a program may fit; those
    /// that need the least memory come first.
    fn ways(&self, ranks: usize) -> Vec<Self::Way>;

    /// The number of programs that are priced for a way.
    fn priced(&self, _way: &Self::Way) -> usize {
        1
    }

    /// Whether a proved program fits on one of the [`ways`](Self::ways) of this many ranks; `None` if none was found
    /// but not all were compared.
    fn fits(&self, ranks: usize, way: &Self::Way) -> Option<bool>;

    /// Whether a search with this many ranks examines everything that one with fewer ranks does.
    fn is_counted(&self, _ranks: usize) -> bool {
        true
    }

    /// Whether a search with this many ranks is refused because it would compare too much.
    fn is_refused(&self, _ranks: usize) -> bool {
        false
    }
}

/// How many ranks would be enough, more than `given`. With more than `iterations` ranks, some have no work. It takes at
/// most `at_most`, plus the time of the last way tried.
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
    // If there is a time limit, the remaining ways of each number are tried, too.
    for (ranks, mut ways) in left.into_iter().filter(|_| at_most.is_some()) {
        if ways.any(|way| !is_later(1) && trial.fits(ranks, &way) == Some(true)) {
            return found(ranks, false);
        }
    }
    tried.map_or(Enough::NotSought, Enough::NotFound)
}

/// The number of iterations of a kernel: the maximum number of ranks that each have work. Empty loops count as 1.
pub(crate) fn iterations(kernel: &Kernel) -> usize {
    kernel.vars().iter().map(|var| var.extent.max(1)).fold(1, usize::saturating_mul)
}

/// The largest number of ranks that is tried for this many iterations.
pub(crate) fn most_ranks(iterations: usize) -> usize {
    iterations.min(MOST_RANKS)
}

/// The machine with at least this many devices, by more members of its outermost level; `None` if it cannot have them.
pub(crate) fn wide(machine: &Machine, devices: usize) -> Option<Machine> {
    let mut counts: Vec<usize> = machine.levels().iter().map(|level| level.count).collect();
    let inside: usize = counts[1..].iter().product();
    counts[0] = counts[0].max(devices.div_ceil(inside));
    machine.clone().with_counts(&counts).ok()
}
