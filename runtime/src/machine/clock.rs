//! Timing what all ranks do together.
//!
//! A time goes from when the first rank begins to when the last one is done, in the fastest of several rounds: on a
//! machine with other work, noise only adds, but ranks that share a core wait for each other, and that counts. A round
//! makes as many calls as fill its time, so that short calls are not those of the clock, nor of the barriers around
//! them. All ranks count the same calls, since collectives must be called alike, and all get the same seconds.

use crate::Result;
use crate::comm::{Communicator, exchange_words};
use std::time::{Duration, Instant};

/// The most calls of one round, whatever its time.
const CALLS: f64 = 10_000.0;

/// A clock of all ranks of a group.
pub(super) struct Clock<'a> {
    /// The group.
    pub(super) comm: &'a dyn Communicator,
    /// The time that the calls of one round fill, if more than one fits: the shorter, the likelier is a round that
    /// nobody disturbs.
    pub(super) round: Duration,
    /// The fewest rounds, of which the fastest counts.
    pub(super) rounds: usize,
    /// The time that more rounds may take.
    pub(super) budget: Duration,
}

impl Clock<'_> {
    /// Returns the seconds that one call takes, more than 0 and the same on all ranks. Collective.
    ///
    /// # Errors
    /// The first of the calls, and as for [`Communicator::barrier`].
    pub(super) fn time(&self, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
        // The first call pays for buffers and connections, and is not counted.
        let first = self.calls(1, &mut call)?;
        let calls = (self.round.as_secs_f64() / first).clamp(1.0, CALLS) as usize;
        let (mut best, mut spent, mut rounds) = (f64::INFINITY, 0.0, 0);
        // All ranks know the same times, so they end alike.
        while rounds < self.rounds.max(1) || spent < self.budget.as_secs_f64() {
            let seconds = self.calls(calls, &mut call)?;
            best = best.min(seconds);
            spent += seconds * calls as f64;
            rounds += 1;
        }
        Ok(best)
    }

    fn calls(&self, calls: usize, call: &mut impl FnMut() -> Result<()>) -> Result<f64> {
        self.comm.barrier()?;
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        // Ranks that share a core begin one after the other, so each waits here until all are done.
        self.comm.barrier()?;
        let seconds = start.elapsed().as_secs_f64();
        let told = exchange_words(self.comm, "the time of a measurement", [seconds.to_bits()])?;
        let longest = told.iter().map(|note| f64::from_bits(note[0])).fold(0.0, f64::max);
        // No clock ticks finer than this.
        Ok(longest.max(1e-9) / calls as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spmd;
    use std::cell::Cell;

    #[test]
    fn ranks_make_the_same_calls_and_get_the_same_seconds() {
        let told = spmd(3, |world| -> Result<_> {
            let clock = Clock {
                comm: world.comm(),
                round: Duration::from_micros(200),
                rounds: 2,
                budget: Duration::from_millis(1),
            };
            let calls = Cell::new(0usize);
            // A collective: on threads it is an error if the ranks do not call it alike.
            let seconds = clock.time(|| {
                calls.set(calls.get() + 1);
                world.comm().barrier()
            })?;
            Ok((calls.get(), seconds))
        });
        let told = told.unwrap();
        assert!(told.iter().all(|of| *of == told[0] && of.1 > 0.0 && of.0 >= 3), "{told:?}");
    }

    #[test]
    fn an_error_of_a_call_ends_the_timing() {
        let error = spmd(1, |world| {
            let clock = Clock { comm: world.comm(), round: Duration::ZERO, rounds: 2, budget: Duration::ZERO };
            clock.time(|| world.comm().send(3, &[]))
        });
        assert_eq!(error.unwrap_err().to_string(), "rank 0: no rank 3: the group has ranks 0..1");
    }
}
