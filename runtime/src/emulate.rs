//! Runs one function on every device of an emulated machine.
//!
//! Like [`spmd`](crate::spmd()), but the ranks are threads, and messages between them take the time that the machine's links
//! need, with concurrent messages queueing at shared ports. So the cost of a placement or a reduction on several nodes can be
//! measured on one computer. Only communication is slowed: arithmetic runs at the speed of this computer.

use crate::spmd::{check_outside, on_threads};
use crate::{Error, LaunchError, Result, World};
use polyshard_comm::launcher::{Launcher, launcher};
use polyshard_comm::threads::Network;
use polyshard_machine::Machine;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Runs `f` once per device of `machine`, on threads of this process, and returns the results in rank order.
///
/// Each second of the machine lasts `slowdown` seconds: with 1, its bandwidths and latencies are taken as they are, with 1000, megabytes
/// take as long as gigabytes would. A message occupies the ports along its path for as long as they need for its bytes, one message after
/// the other; a rank that receives sleeps until it has arrived. Collectives are carried out as messages to neighbours, in both directions
/// of a ring of the group's ranks:
///
/// ```text
/// all-gather, reduce-scatter     blocks go around the shorter way          n/2 steps
/// all-reduce                     a reduce-scatter and an all-gather
/// broadcast, reduce              a chain in each direction, in pieces      n-1 steps and the pieces
/// all-to-all                     all messages at once
/// barrier                        messages of no bytes                      log2 n steps
/// ```
///
/// Results are those of [`spmd`](crate::spmd()), except that sums of floats are taken in the rings' order: the same on all ranks and in
/// every run. Times are accurate to some 0.1 ms per message, the time to wake a thread, and as far as this computer has processors: choose
/// the slowdown such that messages take much longer.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::comm::Combining;
/// use polyshard::runtime::{Error, spmd_emulated};
///
/// // 2 nodes of 2 GPUs, at a thousandth of their speed.
/// let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2]));
/// let sums = spmd_emulated(&machine.expect("it is a machine"), 1000.0, |world| -> Result<_, Error> {
///     let mut data = [world.rank() as i64; 1000];
///     world.comm().all_reduce(bytemuck::cast_slice_mut(&mut data), Combining::any_order(DType::I64, ReduceOp::Sum))?;
///     Ok(data[0])
/// })?;
/// assert_eq!(sums, [6; 4]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`spmd`](crate::spmd()) on threads; and [`LaunchError`] if `slowdown` is not positive and finite, or an MPI launcher has started this
/// process, whose ranks would each emulate the whole machine.
pub fn spmd_emulated<R, E, F>(machine: &Machine, slowdown: f64, f: F) -> Result<Vec<R>, E>
where
    R: Send,
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E> + Sync,
{
    on_network(&Arc::new(network(machine, slowdown)?), f)
}

/// Runs `f` as [`spmd_emulated`] does, with each message delayed by a time of its own, from 0 to `most`, so that messages arrive in another
/// order than they are sent in: for tests that results do not depend on the order.
///
/// The delay of a message depends only on the seed, on its sender and its receiver, and on the number of earlier messages from the one to
/// the other: the same times are drawn in every run.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::comm::Piece;
/// use polyshard::runtime::{Error, spmd_emulated_shaken};
/// use std::time::Duration;
///
/// let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[1, 2])).expect("it is a machine");
/// let received = spmd_emulated_shaken(&machine, 1.0, 1, Duration::from_millis(3), |world| -> Result<_, Error> {
///     let (comm, other) = (world.comm(), 1 - world.rank());
///     let own = Piece::copy_of(&[world.rank() as u8], "a message")?;
///     let mut flight = comm.post(vec![(other, own.into())], vec![(other, Piece::new(1, "a message")?)])?;
///     while comm.poll(&mut [&mut flight])? == 0 {
///         std::thread::yield_now();
///     }
///     let (_, received) = flight.into_pieces();
///     Ok(received[0][0])
/// })?;
/// assert_eq!(received, [1, 0]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`spmd_emulated`].
pub fn spmd_emulated_shaken<R, E, F>(
    machine: &Machine,
    slowdown: f64,
    seed: u64,
    most: Duration,
    f: F,
) -> Result<Vec<R>, E>
where
    R: Send,
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E> + Sync,
{
    on_network(&Arc::new(network(machine, slowdown)?.shaken(seed, most)), f)
}

/// The idle network of a machine, for ranks of this process.
fn network(machine: &Machine, slowdown: f64) -> Result<Network> {
    check_outside()?;
    if let Some(Launcher { name: launcher, variable, .. }) = launcher() {
        return Err(LaunchError::Emulated { launcher, variable }.into());
    }
    Ok(Network::new(machine, slowdown)?)
}

/// Runs `f` once per device of the network, on threads.
pub(crate) fn on_network<R, E, F>(network: &Arc<Network>, f: F) -> Result<Vec<R>, E>
where
    R: Send,
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E> + Sync,
{
    on_threads(network.devices(), |comm| Ok(Rc::new(comm.emulated(Arc::clone(network))?)), f)
}
