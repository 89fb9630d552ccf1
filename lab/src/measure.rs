//! Measuring a machine so that it predicts its measurements.
//!
//! Messages between neighbours give each link's latency and bandwidth. The overhead of a collective beyond its
//! messages (copies, arithmetic, protocols, cores that ranks share, caches) is stored as factors by operation, group
//! size and message size, the machine's profiles. A machine made in this way predicts its own measurements without
//! error, which proves nothing; so each is predicted by a machine that is fitted to the other sizes only.

use super::EXTRA;
use super::calls::{Buffers, ELEMENT};
use super::clock::{Clock, Timed, Watch};
use super::measured::{Measured, MeasuredCall, Point};
use super::noise::Noise;
use super::probe::{self, refused};
use super::progress::{Progress, Steps};
use super::topology::Topology;
use polyshard_machine::units::{binary, counted};
use polyshard_machine::{
    Algorithm, Collective, GroupedCollective, Machine, MachineError, Measurement, fit_link, fit_profiles,
    leave_one_out, seconds,
};
use polyshard_runtime::comm::Communicator;
use polyshard_runtime::layout::in_order;
use polyshard_runtime::{DType, DetectError, Result, World};
use std::time::Duration;

/// The collectives that are measured.
const OPERATIONS: [Collective; 8] = [
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::Reduce,
    Collective::Broadcast,
    Collective::Exchange,
    Collective::Permute,
];

/// The measurements to make, and how thoroughly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureOptions {
    /// Sizes in bytes: of a message, and of a rank's larger buffer before or after a collective. Rounded down to
    /// whole elements of 4 bytes for each rank.
    pub sizes: Vec<usize>,
    /// The number of passes over all measurements; the fastest time counts, since a disturbance of one pass may spare the next.
    pub passes: usize,
    /// The time that the calls of one timing fill, if more than one fits.
    pub round: Duration,
    /// Minimum number of timings of each call in one pass.
    pub rounds: usize,
    /// The time for further timings of each call, in one pass.
    pub budget: Duration,
    /// Rows of the matrices in timed products.
    pub rows: usize,
    /// Bytes of the copy that measures the memory.
    pub copy: usize,
}

impl Default for MeasureOptions {
    /// The powers of two from 1 KiB to 64 MiB, thoroughly: some ten seconds on a few ranks.
    fn default() -> Self {
        let sizes = (10..=26).map(|power| 1 << power).collect();
        let (round, budget) = (Duration::from_millis(1), Duration::from_millis(12));
        Self { sizes, passes: 3, round, rounds: 2, budget, rows: 512, copy: 1 << 26 }
    }
}

/// Measures the machine that the ranks of `world` form. Collective, and the same on all ranks.
///
/// Every figure is taken while all ranks do the same at once; collectives are timed in groups of all ranks, and of
/// each number of neighbours that divides them. Two buffers of the largest size are allocated on each rank, and the
/// library takes as much again.
///
/// ```
/// use polyshard_lab::{MeasureOptions, measure};
/// use polyshard::prelude::*;
/// let quick = MeasureOptions { sizes: vec![1 << 10, 1 << 12], rows: 16, copy: 1 << 16, ..MeasureOptions::default() };
/// let found = spmd(2, |world| Ok(measure(world, &quick)?))?;
/// assert_eq!(found[0].machine.hierarchy(), [2]);
/// assert_eq!(found[0].points.len(), 2 * 9); // messages and eight collectives
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// [`DetectError`] if there are fewer than two ranks or sizes, a size does not have one element for each rank, or the
/// buffers do not fit the memory; otherwise as for [`detect`](super::detect()).
pub fn measure(world: &World, options: &MeasureOptions) -> Result<Measured> {
    measure_with(world, options, |_| ())
}

/// As [`measure`], and calls `progress` before each step, on every rank.
///
/// # Errors
/// As for [`measure`].
pub fn measure_with(world: &World, options: &MeasureOptions, mut progress: impl FnMut(&Progress)) -> Result<Measured> {
    let topology = Topology::find(world)?;
    let sizes = checked_sizes(&topology, options)?;
    let MeasureOptions { round, rounds, budget, .. } = *options;
    let watch = &Watch::new(None);
    let clock = Clock { comm: world.comm(), round, rounds, budget, extra: EXTRA, watch, computes: false };
    let groups: Vec<usize> = (2..=world.size()).rev().filter(|&ranks| world.size().is_multiple_of(ranks)).collect();
    let calls = topology.levels().len() + groups.len() * OPERATIONS.len();
    let passes = options.passes.max(1);
    let total = passes * (probe::DEVICE_STEPS + probe::in_place_steps(&topology) + calls * sizes.len());
    let steps = &mut Steps { done: 0, total, tell: &mut progress };

    let copy = options.copy.max(1);
    let types = &DType::NATIVE;
    let mut device = probe::device(&clock, &topology, types, options.rows.max(1), copy, options.passes, steps)?;
    device.others = probe::in_place(world, &clock, &topology, copy, options.passes, steps)?;
    let mut timed: Vec<Timed> = device.timed().collect();
    let mut buffers = Buffers::new(sizes[sizes.len() - 1]);
    let mut points = Vec::new();
    let links = probe::links(&clock, &topology, &mut buffers, &sizes, options.passes, steps)?;
    for link in &links {
        timed.extend(link.times.iter().map(|(_, timed)| *timed));
        points.extend(messages(link, world.size()).map_err(refused)?);
    }
    let links = probe::machine("measured", &topology, &links, device.device(&topology))?;
    let mut measurements = Vec::new();
    // Collectives are many, so they are timed in several passes instead.
    let clock = Clock { extra: 0, ..clock };
    for ranks in groups {
        let group = world.comm().split(world.rank() / ranks, world.rank())?;
        let (taken, times) = take(&clock, &*group, &mut buffers, &sizes, options.passes, steps)?;
        points.extend(judged(&links, &sizes, &taken).map_err(refused)?);
        measurements.extend(taken);
        timed.extend(times);
    }
    let machine = fit_profiles(&links, &measurements).map_err(refused)?;
    let noise = Noise::new(&topology, watch, &timed);
    let machine = noise.marked(machine);
    Ok(Measured { machine, topology, points, noise })
}

/// Times all operations at all sizes in groups of neighbours as large as `group`, which is this rank's group.
fn take(
    clock: &Clock<'_>,
    group: &dyn Communicator,
    buffers: &mut Buffers,
    sizes: &[usize],
    passes: usize,
    steps: &mut Steps<'_>,
) -> Result<(Vec<Measurement>, Vec<Timed>)> {
    let (everyone, ranks): (Vec<usize>, _) = ((0..clock.comm.size()).collect(), group.size());
    let groups: Vec<Vec<usize>> = everyone.chunks(ranks).map(<[usize]>::to_vec).collect();
    let mut taken = Vec::with_capacity(OPERATIONS.len() * sizes.len());
    for (operation, &bytes) in OPERATIONS.into_iter().flat_map(|operation| sizes.iter().map(move |of| (operation, of)))
    {
        let before = if operation == Collective::AllGather { bytes / ranks } else { bytes };
        let collective = GroupedCollective { operation, groups: groups.clone(), bytes: before as f64 };
        taken.push(Measurement { collective, algorithm: Algorithm::Ring, seconds: f64::INFINITY });
    }
    let mut times = vec![Timed::NEVER; taken.len()];
    for _ in 0..passes.max(1) {
        for ((measured, timed), &bytes) in taken.iter_mut().zip(&mut times).zip(sizes.iter().cycle()) {
            let operation = measured.collective.operation;
            steps.next(format_args!("{operation} of {} on {}", binary(bytes as f64), counted(ranks, "rank")));
            *timed = timed.min(buffers.collective(clock, group, operation, bytes)?);
            measured.seconds = timed.seconds;
        }
    }
    Ok((taken, times))
}

/// The measurements, with predictions.
fn judged(links: &Machine, sizes: &[usize], taken: &[Measurement]) -> Result<Vec<Point>, MachineError> {
    let predicted = leave_one_out(links, taken)?;
    let point = |((measured, predicted), &bytes): ((&Measurement, f64), &usize)| {
        let (call, ranks) =
            (MeasuredCall::Collective(measured.collective.operation), measured.collective.groups[0].len());
        let links = seconds(links, &measured.collective, measured.algorithm)?.total();
        Ok(Point { call, ranks, bytes, seconds: measured.seconds, links, predicted })
    };
    taken.iter().zip(predicted).zip(sizes.iter().cycle()).map(point).collect()
}

/// The messages of one level, each predicted by a fit to the others.
fn messages(link: &probe::LinkTimes, ranks: usize) -> Result<Vec<Point>, MachineError> {
    let times = link.of_port();
    let fit = fit_link(&times)?;
    let point = |(nth, &(bytes, Timed { seconds, .. })): (usize, &(usize, Timed))| {
        let others: Vec<_> = times.iter().enumerate().filter(|(other, _)| *other != nth).map(|(_, of)| *of).collect();
        let (call, passed) = (MeasuredCall::Message(link.level), times[nth].0);
        let predicted = fit_link(&others)?.seconds(passed);
        Ok(Point { call, ranks, bytes, seconds, links: fit.seconds(passed), predicted })
    };
    link.times.iter().enumerate().map(point).collect()
}

/// The sizes, increasing and in whole elements for each rank.
fn checked_sizes(topology: &Topology, options: &MeasureOptions) -> Result<Vec<usize>> {
    let ranks = topology.ranks();
    if ranks < 2 {
        return Err(DetectError::OneRank.into());
    }
    let unit = ELEMENT * ranks;
    if let Some(&size) = options.sizes.iter().find(|&&size| size < unit) {
        return Err(DetectError::SizeTooSmall { size, ranks, min: unit }.into());
    }
    let sizes = in_order(options.sizes.iter().map(|size| size / unit * unit).collect());
    if sizes.len() < 2 {
        return Err(DetectError::TooFewSizes { sizes, unit }.into());
    }
    let (size, memory) = (sizes[sizes.len() - 1], topology.memory / topology.ranks_per_node as u64);
    if size as u64 > memory / 8 { Err(DetectError::SizeTooLarge { size, memory }.into()) } else { Ok(sizes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_runtime::spmd;

    #[track_caller]
    fn refused(ranks: usize, sizes: &[usize], expected: &str) {
        let topology = Topology { nodes: 1, ranks_per_node: ranks, cores: 2, memory: 1 << 20 };
        let options = MeasureOptions { sizes: sizes.to_vec(), ..MeasureOptions::default() };
        assert_eq!(checked_sizes(&topology, &options).unwrap_err().to_string(), expected);
    }

    #[test]
    fn sizes_that_cannot_be_measured_are_refused_before_anything_is() {
        refused(1, &[1024, 4096], "measuring messages needs at least 2 ranks");
        let small = "size 11 does not have an element for each of 3 ranks; give sizes of 12 bytes or more";
        refused(3, &[1024, 11], small);
        let few = "[1024] are too few sizes to tell latency from bandwidth; give at least two, 8 bytes apart";
        refused(2, &[1024, 1027, 1024], few);
        refused(4, &[], "[] are too few sizes to tell latency from bandwidth; give at least two, 16 bytes apart");
        let large =
            "buffers of 65536 bytes do not fit into a rank's share of the memory, 262144 bytes; give sizes up to 32768";
        refused(4, &[1024, 65536], large);
    }

    #[test]
    fn a_refusal_is_that_of_all_ranks() {
        let options = MeasureOptions { sizes: vec![8, 64], ..MeasureOptions::default() };
        let error = spmd(4, |world| measure(world, &options)).unwrap_err();
        let expected = "rank 0: size 8 does not have an element for each of 4 ranks; give sizes of 16 bytes or more";
        assert_eq!(error.to_string(), expected);
    }
}
