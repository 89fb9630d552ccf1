//! Machines that are measured: where the ranks of a world are, how fast their links are, and how fast a rank computes.
//!
//! [`Topology`] counts, [`detect`] adds a quick measurement, and [`measure`] a thorough one: it also finds the overhead of the
//! communication library beyond its messages, and reports how well the machine predicts the measurements. Every figure is
//! measured or obtained from the system; if that fails, the result is an error, never a guess. Only [`recall`] settles for less:
//! where measuring does not pay, it uses and reports figures of similar processors.
//!
//! All of it is collective, and all ranks get the same machine. No result of a program depends on it.

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

use calls::Buffers;
use clock::{Clock, Watch};
use polyshard_machine::Machine;
use polyshard_runtime::{DType, Result, World};
use progress::Steps;
use serde::Serialize;
use std::time::Duration;

/// Sizes of messages of a quick measurement, in bytes.
const SIZES: [usize; 3] = [1 << 10, 1 << 15, 1 << 20];
/// Rows of the matrices of a quick measurement: enough that more rows make no difference.
const ROWS: usize = 512;
/// Bytes that the ranks of a node copy together in a quick measurement, more than the caches of many processors hold; no rank
/// copies more than half of it. As many bytes again are read for non-contiguous rows.
const COPY: usize = 1 << 27;
/// Time limit of a measurement before a search; the call in progress is completed.
const LIMIT: Duration = Duration::from_millis(700);
/// Maximum rounds that are added while the two fastest rounds of a link or a device differ.
const EXTRA: usize = 8;

/// The result of a quick measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// The machine.
    pub machine: Machine,
    /// The nodes and ranks.
    pub topology: Topology,
    /// Disturbance by other work.
    pub noise: Noise,
}

/// Returns the machine that the ranks of `world` form: one device per rank, levels `node` and `rank`.
///
/// MPI reports which ranks share a node (MPI 3.1, section 6.4.2), and the system reports its memory. Bandwidths, latencies and rates come
/// from a quick measurement of a second or two: three sizes of messages between neighbours of each level, one product of matrices per
/// element type, and copies: all ranks at once, and one rank while the others wait. A level of one member has no link and is left out; a
/// world of one rank has the level `rank`, whose link is the rank's to itself. For reliable figures, and for the overhead of collectives
/// beyond their messages, use [`measure`].
///
/// Collective, and the same on all ranks.
///
/// ```
/// use polyshard_lab::detect;
/// use polyshard::prelude::*;
/// let found = spmd(3, |world| Ok(detect(world)?))?;
/// assert_eq!(found[0].hierarchy(), [3]); // threads share one node
/// assert_eq!(found[0], found[2]);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// [`DetectError`](polyshard_runtime::DetectError) if nodes have different numbers of ranks, or the ranks of a node are not
/// consecutive; if the system does not report its memory; or as for
/// [`Communicator::barrier`](polyshard_runtime::comm::Communicator::barrier).
pub fn detect(world: &World) -> Result<Machine> {
    survey(world).map(|survey| survey.machine)
}

/// Returns the machine that the ranks of `world` form, as [`detect`], with its topology and the disturbance of the
/// measurement. Collective, and the same on all ranks.
///
/// # Errors
/// As for [`detect`].
pub fn survey(world: &World) -> Result<Survey> {
    survey_of(world, Topology::find(world)?, false)
}

/// As [`survey`], for a known topology. If `quick`, within [`LIMIT`]: figures for which the time is too short are filled in.
fn survey_of(world: &World, topology: Topology, quick: bool) -> Result<Survey> {
    let watch = &Watch::new(quick.then_some(LIMIT));
    let is_shared = topology.ranks_per_node > topology.cores;
    let (passes, budget, extra, copy) = if quick { (1, 3, 2, COPY / 4) } else { (2, 12, EXTRA, COPY) };
    // Ranks that share a core alternate in time slices of some milliseconds, so their common rate shows only over a longer time. A
    // disturbance of one pass may spare the next.
    let (round, passes) = if is_shared { (8, 1) } else { (2, passes) };
    let (round, budget) = (Duration::from_millis(round), Duration::from_millis(budget));
    let clock = Clock { comm: world.comm(), round, rounds: 2, budget, extra, watch, computes: false };
    let mut buffers = Buffers::new(SIZES[SIZES.len() - 1]);
    let steps = &mut Steps { done: 0, total: 0, tell: &mut |_| () };
    // Links are timed in any case, since a machine needs them.
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
