//! Machines that are found: where the ranks of a world are, how fast their links, and what a rank can do.
//!
//! [`Topology`] counts, [`detect`] takes a quick look besides, and [`measure`] takes its time: it also finds what
//! the communication library adds to its messages, and says how well the machine predicts what was measured. Every
//! figure is measured or asked of the system; where that fails there is an error, never a guess. [`recall`] alone does with less:
//! where it does not pay to measure, figures are those of similar processors, and it says so.
//!
//! All of it is collective, and all ranks get the same machine. Nothing that a program computes depends on it.

mod assumed;
mod calls;
mod clock;
mod measure;
mod measured;
mod noise;
mod probe;
mod progress;
mod recall;
mod topology;

pub use measure::{MeasureOptions, measure, measure_with};
pub use measured::{Measured, MeasuredCall, Point, Row};
pub use noise::Noise;
pub use progress::Progress;
pub use recall::{Keep, Origin, Recalled, recall};
pub use topology::Topology;

use crate::{DType, Result, World};
use calls::Buffers;
use clock::{Clock, Watch};
use polyshard_machine::Machine;
use progress::Steps;
use serde::Serialize;
use std::time::Duration;

/// Sizes of messages of a quick look, in bytes.
const SIZES: [usize; 3] = [1 << 10, 1 << 15, 1 << 20];
/// Rows of the matrices of a quick look: as many as it takes until more of them make no difference.
const ROWS: usize = 512;
/// Bytes that the ranks of a node copy together in a quick look, more than the caches of many processors hold; no rank copies more
/// than half of it. As much again is read for rows that lie apart.
const COPY: usize = 1 << 27;
/// How long a measurement goes on before a search, which ends when the call that it is at is done.
const LIMIT: Duration = Duration::from_millis(700);
/// The most rounds that a quick look adds while the two fastest of a call differ.
const EXTRA: usize = 8;

/// What a quick look finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// The machine.
    pub machine: Machine,
    /// Where its ranks are.
    pub topology: Topology,
    /// What disturbed the measurement.
    pub noise: Noise,
}

/// Returns the machine that the ranks of `world` are: one device per rank, levels `node` and `rank`.
///
/// Which ranks share a node is asked of MPI (MPI 3.1, section 6.4.2), and the memory of the system. Bandwidths,
/// latencies and rates come from a quick measurement of a second or two: three sizes of messages between neighbours of each
/// level, one product of matrices per element type, and copies: all ranks at once, and one rank while the others wait. A level of one member has no link
/// and is left out; a world of one rank has the level `rank`, whose link is the rank's to itself. For figures to rely
/// on, and for what collectives take beside their messages, there is [`measure`].
///
/// Collective, and the same on all ranks.
///
/// ```
/// use polyshard::runtime::machine::detect;
/// use polyshard::prelude::*;
/// let found = spmd(3, |world| Ok(detect(world)?))?;
/// assert_eq!(found[0].hierarchy(), [3]); // threads share one node
/// assert_eq!(found[0], found[2]);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// [`DetectError`](crate::DetectError) if nodes have different numbers of ranks, or the ranks of a node do not follow
/// one another; if the system does not say what memory it has; or as for
/// [`Communicator::barrier`](crate::comm::Communicator::barrier).
pub fn detect(world: &World) -> Result<Machine> {
    survey(world).map(|survey| survey.machine)
}

/// Returns the machine that the ranks of `world` are, as [`detect`], with where they are and what disturbed the measurement.
/// Collective, and the same on all ranks.
///
/// # Errors
/// As for [`detect`].
pub fn survey(world: &World) -> Result<Survey> {
    survey_of(world, Topology::find(world)?, false)
}

/// As [`survey`], of ranks that are known to be there. If `quick`, within [`LIMIT`]: figures for which the time is too short are completed.
fn survey_of(world: &World, topology: Topology, quick: bool) -> Result<Survey> {
    let watch = &Watch::new(quick.then_some(LIMIT));
    let is_shared = topology.ranks_per_node > topology.cores;
    let (passes, budget, extra, copy) = if quick { (1, 3, 2, COPY / 4) } else { (2, 12, EXTRA, COPY) };
    // Ranks that share a core take turns of some milliseconds, so what they take together shows in a longer time. What disturbs one pass may spare
    // the next.
    let (round, passes) = if is_shared { (8, 1) } else { (2, passes) };
    let (round, budget) = (Duration::from_millis(round), Duration::from_millis(budget));
    let clock = Clock { comm: world.comm(), round, rounds: 2, budget, extra, watch, computes: false };
    let mut buffers = Buffers::new(SIZES[SIZES.len() - 1]);
    let steps = &mut Steps { done: 0, total: 0, tell: &mut |_| () };
    // Without a link there is no machine, so those are timed in any case.
    let links = &Clock { watch: &Watch::new(None), ..clock };
    let links = probe::links(links, &topology, &mut buffers, &SIZES, 1, steps)?;
    let copy = copy / topology.ranks_per_node.max(2);
    let others = probe::in_place(world, &clock, &topology, copy, 1, steps)?;
    let types = if quick { &[DType::F32, DType::F64][..] } else { &DType::NATIVE };
    let mut device = probe::device(&clock, &topology, types, ROWS, copy, passes, steps)?;
    device.others = others;
    let timed = links.iter().flat_map(|link| &link.times).map(|(_, timed)| *timed).chain(device.timed());
    let timed: Vec<_> = timed.filter(|timed| timed.seconds.is_finite()).collect();
    let noise = Noise::new(&topology, watch, &timed);
    let device = match quick {
        true => assumed::completed(device.device(&topology), assumed::machine(world, &topology)?.device()),
        false => device.device(&topology),
    };
    let machine = noise.marked(probe::machine("detected", &topology, &links, device)?);
    Ok(Survey { machine, topology, noise })
}
