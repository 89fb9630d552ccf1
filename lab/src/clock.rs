//! Timing of operations that all ranks execute together.
//!
//! A time runs from the start of the first rank to the end of the last one, in the fastest of several rounds: on a
//! machine with other work, noise only adds, but ranks that share a core wait for each other, and that counts. While the
//! two fastest rounds differ, more are added. A round makes as many calls as fill its time, so that the clock and the
//! barriers around the calls do not dominate the time of short ones. All ranks make the same calls, since collectives
//! must match, and all get the same seconds.

use polyshard_runtime::Result;
use polyshard_runtime::comm::{Communicator, exchange_words};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Maximum number of calls of one round, whatever its time.
const CALLS: f64 = 10_000.0;
/// The round's time for operations whose speed varies: ranks that share a core alternate in time slices of some milliseconds, and a port
/// may send at once the data that it could have sent while idle.
const LONG: Duration = Duration::from_millis(64);
/// Two rounds that differ by less, as a part of the faster, count as equal.
const EQUAL: f64 = 0.1;

/// The state of all timings, the same on all ranks.
pub(super) struct Watch {
    /// When timing must stop.
    until: Option<Instant>,
    over: Cell<bool>,
    /// Seconds that ranks computed, and the part of them for which the slowest waited for a core.
    computed: Cell<[f64; 2]>,
}

impl Watch {
    /// Starts now, and ends after `limit`, if given.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { until: limit.map(|limit| Instant::now() + limit), over: Cell::new(false), computed: Cell::default() }
    }

    /// The part of the computing time for which the slowest rank waited for a core that was busy with other work.
    pub(super) fn waiting(&self) -> f64 {
        let [seconds, waited] = self.computed.get();
        if seconds > 0.0 { waited / seconds } else { 0.0 }
    }
}

/// The time that this thread has run on a core; none if the system does not report it.
#[cfg(unix)]
fn on_core() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
}

#[cfg(not(unix))]
fn on_core() -> Option<Duration> {
    None
}

/// A clock of all ranks of a group.
#[derive(Clone, Copy)]
pub(super) struct Clock<'a> {
    /// The group.
    pub(super) comm: &'a dyn Communicator,
    /// The time that the calls of one round fill, if more than one fits: the shorter it is, the likelier is a
    /// round without disturbance.
    pub(super) round: Duration,
    /// Minimum number of rounds, of which the fastest counts.
    pub(super) rounds: usize,
    /// The time that more rounds may take.
    pub(super) budget: Duration,
    /// Maximum number of rounds added beyond the budget while the two fastest differ.
    pub(super) extra: usize,
    /// The state of all timings.
    pub(super) watch: &'a Watch,
    /// Whether calls wait for no other rank, so that a rank that is not running has lost its core to other work.
    pub(super) computes: bool,
}

/// The time of one call, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timed {
    /// In the fastest round.
    pub(super) seconds: f64,
    /// In the median round.
    pub(super) median: f64,
}

impl Timed {
    /// The time of a call before it is timed: every other time is faster.
    pub(super) const NEVER: Self = Self { seconds: f64::INFINITY, median: f64::INFINITY };

    /// Returns the time after another pass: the fastest round of all, and the median of the quietest pass.
    pub(super) fn min(self, other: Self) -> Self {
        Self { seconds: self.seconds.min(other.seconds), median: self.median.min(other.median) }
    }
}

impl Clock<'_> {
    /// The clock with rounds long enough for operations whose speed varies.
    pub(super) fn longer(&self) -> Self {
        Self { round: self.round.max(LONG), ..*self }
    }

    /// The clock with twice as many rounds, for times whose small differences matter.
    pub(super) fn closer(&self) -> Self {
        Self { rounds: 2 * self.rounds, ..*self }
    }

    /// Whether the time limit of all timings has passed; the same on all ranks.
    pub(super) fn is_over(&self) -> bool {
        self.watch.over.get()
    }

    /// As [`time`](Self::time), for a call that waits for no other rank.
    pub(super) fn compute(&self, call: impl FnMut() -> Result<()>) -> Result<Timed> {
        Self { computes: true, ..*self }.time(call)
    }

    /// Returns the time of one call, more than 0 and the same on all ranks; [`NEVER`](Timed::NEVER) if the time limit has passed.
    /// Collective.
    pub(super) fn time(&self, mut call: impl FnMut() -> Result<()>) -> Result<Timed> {
        if self.is_over() {
            return Ok(Timed::NEVER);
        }
        // The first call includes the cost of buffers, pages and connections, and is not counted.
        let first = self.calls(1, &mut call)?;
        let calls = (self.round.as_secs_f64() / first).clamp(1.0, CALLS) as usize;
        let (mut rounds, mut spent, mut extra) = (Vec::new(), 0.0, 0);
        // All ranks know the same times, so they stop at the same round.
        loop {
            if rounds.len() >= self.rounds.max(1) && spent >= self.budget.as_secs_f64() {
                if extra == self.extra || settled(&rounds) {
                    break;
                }
                extra += 1;
            }
            if self.is_over() && !rounds.is_empty() {
                break;
            }
            let seconds = self.calls(calls, &mut call)?;
            let place = rounds.partition_point(|other| *other <= seconds);
            rounds.insert(place, seconds);
            spent += seconds * calls as f64;
        }
        Ok(Timed { seconds: rounds[0], median: rounds[rounds.len() / 2] })
    }

    fn calls(&self, calls: usize, call: &mut impl FnMut() -> Result<()>) -> Result<f64> {
        self.comm.barrier()?;
        let (start, before) = (Instant::now(), on_core());
        for _ in 0..calls {
            call()?;
        }
        let ran = on_core().zip(before).map(|(after, before)| after - before);
        let waited = ran.map_or(0.0, |ran| start.elapsed().saturating_sub(ran).as_secs_f64());
        // Ranks that share a core begin one after the other, so each waits here until all are done.
        self.comm.barrier()?;
        let seconds = start.elapsed().as_secs_f64();
        let is_over = self.watch.until.is_some_and(|until| Instant::now() > until);
        let words = [seconds.to_bits(), waited.to_bits(), u64::from(is_over)];
        let told = exchange_words(self.comm, "the time of a measurement", words)?;
        let [longest, waited] =
            [0, 1].map(|word| told.iter().map(|note| f64::from_bits(note[word])).fold(0.0, f64::max));
        if told.iter().any(|note| note[2] > 0) {
            self.watch.over.set(true);
        }
        if self.computes {
            let [all, of_it] = self.watch.computed.get();
            self.watch.computed.set([all + longest, of_it + waited]);
        }
        // No clock has a finer resolution.
        Ok(longest.max(1e-9) / calls as f64)
    }
}

/// Whether the two fastest rounds are equal; `rounds` is ascending.
fn settled(rounds: &[f64]) -> bool {
    matches!(rounds, [first, second, ..] if second - first <= EQUAL * first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_runtime::spmd;
    use std::thread::sleep;

    /// A clock of two rounds, each of one call.
    fn short<'a>(comm: &'a dyn Communicator, watch: &'a Watch) -> Clock<'a> {
        let (round, budget) = (Duration::ZERO, Duration::ZERO);
        Clock { comm, round, rounds: 2, budget, extra: 0, watch, computes: false }
    }

    #[test]
    fn rounds_are_added_while_the_two_fastest_differ() {
        let timed = |extra| {
            spmd(1, |world| -> Result<_> {
                let watch = &Watch::new(None);
                let clock = Clock { extra, ..short(world.comm(), watch) };
                // The first call is not timed; each one takes half as long as the one before.
                let calls = Cell::new(0u32);
                let timed = clock.time(|| {
                    calls.set(calls.get() + 1);
                    sleep(Duration::from_millis(320 >> calls.get()));
                    Ok(())
                })?;
                Ok((calls.get(), timed))
            })
        };
        let [plain, patient] = [0, 4].map(|extra| timed(extra).unwrap()[0]);
        assert_eq!(plain.0, 3, "two rounds");
        // A machine with other work may make two of the shortest rounds equal.
        assert!((5..=7).contains(&patient.0), "at most four rounds more: {patient:?}");
        assert!(patient.1.seconds < plain.1.seconds && patient.1.seconds < patient.1.median, "{plain:?}, {patient:?}");
        assert!(settled(&[1.0, 1.05, 9.0]) && !settled(&[1.0, 1.2]) && !settled(&[1.0]));
    }

    #[test]
    fn ranks_make_the_same_calls_and_get_the_same_seconds() {
        let told = spmd(3, |world| -> Result<_> {
            let (round, budget) = (Duration::from_micros(200), Duration::from_millis(1));
            let watch = &Watch::new(None);
            let clock = Clock { round, budget, extra: 3, ..short(world.comm(), watch) };
            let calls = Cell::new(0usize);
            // A collective: on threads it is an error if the ranks' calls differ.
            let timed = clock.time(|| {
                calls.set(calls.get() + 1);
                Ok(world.comm().barrier()?)
            })?;
            Ok((calls.get(), timed))
        });
        let told = told.unwrap();
        assert!(told.iter().all(|of| *of == told[0] && of.1.seconds > 0.0 && of.0 >= 3), "{told:?}");
    }

    #[test]
    fn an_error_of_a_call_ends_the_timing() {
        let error = spmd(1, |world| short(world.comm(), &Watch::new(None)).time(|| Ok(world.comm().send(3, &[])?)));
        assert_eq!(error.unwrap_err().to_string(), "rank 0: no rank 3: the group has ranks 0..1");
    }

    #[test]
    fn a_rank_that_sleeps_while_it_should_compute_has_lost_its_core_and_a_call_of_another_kind_has_not() {
        let told = spmd(2, |world| {
            let watch = &Watch::new(None);
            let clock = short(world.comm(), watch);
            let sleeping = || {
                sleep(Duration::from_millis(if world.rank() == 1 { 5 } else { 0 }));
                Ok(())
            };
            clock.time(sleeping)?;
            let before = watch.waiting();
            clock.compute(sleeping)?;
            Ok::<_, polyshard_runtime::Error>([before, watch.waiting()])
        });
        let told = told.unwrap();
        assert_eq!(told[0], told[1]);
        assert!(told[0][0] == 0.0 && told[0][1] > 0.5, "{told:?}");
    }

    #[test]
    fn nothing_is_timed_when_the_time_is_over_on_any_rank() {
        let told = spmd(3, |world| {
            let limit = if world.rank() == 2 { Duration::from_millis(1) } else { Duration::from_secs(60) };
            let watch = &Watch::new(Some(limit));
            let clock = Clock { rounds: 9, ..short(world.comm(), watch) };
            let calls = Cell::new(0usize);
            let mut call = || {
                calls.set(calls.get() + 1);
                sleep(Duration::from_millis(2));
                Ok(())
            };
            let first = clock.time(&mut call)?;
            let second = clock.time(&mut call)?;
            Ok::<_, polyshard_runtime::Error>((calls.get(), first.seconds.is_finite(), second == Timed::NEVER))
        });
        assert_eq!(told.unwrap(), [(2, true, true); 3], "the first call, and one round of one");
    }
}
