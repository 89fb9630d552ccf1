//! The calls that are measured: messages between neighbours and the collectives of a program, on buffers of their own.
//!
//! A size is that of a rank's larger buffer, so that one list of sizes takes the same memory for every call:
//!
//! ```text
//! of n ranks, size b                          before    after
//! message                                     b         b        every rank sends to the next, all at once
//! all-gather                                  b / n     b
//! reduce-scatter                              b         b / n
//! all-reduce, all-to-all, reduce, broadcast   b         b
//! exchange                                    b         b        every rank sends a piece to each other rank, by messages as for halos
//! permute                                     b         b        every rank of a group sends to the next
//! ```
//!
//! Each call has another rank as the root of its reduction or broadcast: a root that only sends would run calls
//! ahead of the receivers, and the time of many calls would not show that of one.

use super::clock::{Clock, Timed};
use polyshard_machine::Collective;
use polyshard_runtime::comm::{Broadcast, Combining, Communicator};
use polyshard_runtime::{DType, ReduceOp, Result};
use smallvec::SmallVec;

/// Bytes of an element; sizes are whole elements for each rank.
pub(super) const ELEMENT: usize = size_of::<f32>();

/// The buffers of one rank.
pub(super) struct Buffers {
    send: Vec<f32>,
    into: Vec<f32>,
}

impl Buffers {
    /// Returns buffers for sizes up to `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Self {
        // Written once: pages that were never written all share one, which is always in the cache. Repeated
        // sums soon become infinite, which takes no longer.
        let filled = |first: usize| (0..bytes.div_ceil(ELEMENT)).map(|i| ((first + i) % 1009) as f32).collect();
        Self { send: filled(1), into: filled(2) }
    }

    /// Returns the time that every rank takes to send `bytes` bytes to the rank `to` and to receive as many from
    /// `from`, all at once (MPI 3.1, section 3.10). Collective.
    pub(super) fn shift(&mut self, clock: &Clock<'_>, bytes: usize, to: usize, from: usize) -> Result<Timed> {
        let send = &bytemuck::cast_slice(&self.send)[..bytes];
        let into = &mut bytemuck::cast_slice_mut(&mut self.into)[..bytes];
        clock.time(|| Ok(clock.comm.exchange(&[(to, send)], &mut [(from, &mut *into)])?))
    }

    /// Returns the time of a collective of size `bytes`, whole elements for each rank, in the group `comm` and in
    /// all other groups of the clock's ranks, at once. Collective over the clock.
    pub(super) fn collective(
        &mut self,
        clock: &Clock<'_>,
        comm: &dyn Communicator,
        operation: Collective,
        bytes: usize,
    ) -> Result<Timed> {
        let part = bytes / comm.size();
        let counts = vec![part; comm.size()];
        let (dtype, op) = (DType::F32, ReduceOp::Sum);
        let send: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut self.send)[..bytes];
        let into: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut self.into)[..bytes];
        let mut roots = (0..comm.size()).cycle();
        let mut call = || match operation {
            Collective::AllReduce => comm.all_reduce(into, Combining::any_order(dtype, op)),
            Collective::ReduceScatter => {
                comm.reduce_scatter(send, &mut into[..part], &counts, Combining::any_order(dtype, op))
            }
            Collective::AllGather => comm.all_gather(&send[..part], into, &counts),
            Collective::AllToAll => comm.all_to_all(send, &counts, into, &counts),
            Collective::Reduce => comm.reduce(roots.next().unwrap_or(0), into, Combining::any_order(dtype, op)),
            Collective::Broadcast => comm.broadcast(match roots.next().unwrap_or(0) {
                root if root == comm.rank() => Broadcast::Send(send),
                root => Broadcast::Receive { root, into },
            }),
            Collective::Exchange => {
                let is_other = |rank: usize| rank != comm.rank();
                let sends = send.chunks(part).take(comm.size()).enumerate().filter(|(rank, _)| is_other(*rank));
                let receives = into.chunks_mut(part).take(comm.size()).enumerate().filter(|(rank, _)| is_other(*rank));
                let (sends, mut receives): (SmallVec<[_; 8]>, SmallVec<[_; 8]>) = (sends.collect(), receives.collect());
                comm.exchange(&sends, &mut receives)
            }
            Collective::Permute => {
                let (rank, ranks) = (comm.rank(), comm.size());
                comm.exchange(&[((rank + 1) % ranks, &*send)], &mut [((rank + ranks - 1) % ranks, &mut *into)])
            }
            // No data move.
            Collective::Slice => Ok(()),
        };
        clock.time(|| Ok(call()?))
    }
}
