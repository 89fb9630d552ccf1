//! A collective as a value: one rank's call, with its buffers.
//!
//! Rules that hold for every communicator are here, once: which arguments are refused, which [`Call`] the others must
//! make too, and how many bytes are counted.

use super::call::{Call, Counts};
use super::{Broadcast, Header, check};
use crate::{DType, ReduceOp, Result};
use polyshard_layout::{SumAlgorithm, SumKind};
use std::borrow::Cow;

/// One rank's part in a collective; [`Communicator`](super::Communicator) has a method for each, which documents it.
pub enum CollectiveCall<'a> {
    /// See [`barrier`](super::Communicator::barrier).
    Barrier,
    /// See [`broadcast`](super::Communicator::broadcast).
    Broadcast(Broadcast<'a>),
    /// See [`all_gather`](super::Communicator::all_gather).
    AllGather {
        /// This rank's data.
        send: &'a [u8],
        /// The data of all, in rank order.
        into: &'a mut [u8],
        /// The bytes of each rank.
        counts: &'a [usize],
    },
    /// See [`all_to_all`](super::Communicator::all_to_all).
    AllToAll {
        /// The data for each rank, packed in rank order.
        send: &'a [u8],
        /// The bytes to each rank.
        send_counts: &'a [usize],
        /// The data from each rank, packed in rank order.
        into: &'a mut [u8],
        /// The bytes from each rank.
        receive_counts: &'a [usize],
    },
    /// See [`reduce`](super::Communicator::reduce).
    Reduce {
        /// The rank that gets the result.
        root: usize,
        /// This rank's term, and the root's result.
        data: &'a mut [u8],
        /// How terms are combined.
        combining: Combining,
    },
    /// See [`all_reduce`](super::Communicator::all_reduce).
    AllReduce {
        /// This rank's term, then the result.
        data: &'a mut [u8],
        /// How terms are combined.
        combining: Combining,
    },
    /// See [`reduce_scatter`](super::Communicator::reduce_scatter).
    ReduceScatter {
        /// This rank's term.
        send: &'a [u8],
        /// This rank's part of the result.
        into: &'a mut [u8],
        /// The bytes of each rank's part.
        counts: &'a [usize],
        /// How terms are combined.
        combining: Combining,
    },
    /// See [`exchange_headers`](super::Communicator::exchange_headers).
    Headers {
        /// The subject of the headers.
        tag: Cow<'static, str>,
        /// This rank's header.
        header: Header,
        /// The headers of all ranks.
        into: &'a mut Vec<Header>,
    },
}

/// How the terms of a reduction are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combining {
    /// The type of the elements.
    pub dtype: DType,
    /// The operation.
    pub op: ReduceOp,
    /// The algorithm, and with it the order.
    pub by: SumAlgorithm,
}

impl Combining {
    /// Returns terms of `bytes` bytes of each of `ranks` ranks combined in rank order on every communicator, `((x0 + x1) + x2) + ..`, so
    /// that floats have the same bits everywhere.
    #[must_use]
    pub fn in_order(dtype: DType, op: ReduceOp, bytes: usize, ranks: usize) -> Self {
        Self { dtype, op, by: SumAlgorithm::in_order(bytes as u64, ranks as u64) }
    }

    /// Returns terms combined in the order that the communicator chooses.
    #[must_use]
    pub fn any_order(dtype: DType, op: ReduceOp) -> Self {
        Self { dtype, op, by: SumAlgorithm::Library }
    }
}

impl CollectiveCall<'_> {
    /// Refuses arguments that rank `rank` of `size` can see to be wrong without asking the others.
    pub(super) fn check(&self, size: usize, rank: usize) -> Result<()> {
        match self {
            Self::Barrier | Self::Headers { .. } | Self::Broadcast(Broadcast::Send(_)) => Ok(()),
            Self::Broadcast(Broadcast::Receive { root, .. }) => check::root_receives(size, rank, *root),
            Self::AllGather { send, into, counts } => {
                check::counts(size, counts, "into", into.len())?;
                check::own_count(counts[rank], "send", send.len())
            }
            Self::AllToAll { send, send_counts, into, receive_counts } => {
                check::counts(size, send_counts, "send", send.len())?;
                check::counts(size, receive_counts, "into", into.len())
            }
            Self::Reduce { root, data, combining } => {
                check::member(size, *root)?;
                check::elements(combining.dtype, data)
            }
            Self::AllReduce { data, combining } => check::elements(combining.dtype, data),
            Self::ReduceScatter { send, into, counts, combining } => {
                check::reduce_scatter(size, rank, send, into, counts, combining.dtype)
            }
        }
    }

    /// Returns the call without the data; `world_rank` maps ranks of the group, of which this is `rank`, to world ranks, and
    /// `keep` stores counts.
    pub(super) fn call(
        &self,
        rank: usize,
        world_rank: &dyn Fn(usize) -> usize,
        keep: impl Fn(&[usize]) -> Counts,
    ) -> Call {
        match self {
            Self::Barrier => Call::Barrier,
            Self::Broadcast(Broadcast::Send(data)) => Call::Broadcast { root: world_rank(rank), bytes: data.len() },
            Self::Broadcast(Broadcast::Receive { root, into }) => {
                Call::Broadcast { root: world_rank(*root), bytes: into.len() }
            }
            Self::AllGather { counts, .. } => Call::AllGather { counts: keep(counts) },
            Self::AllToAll { send_counts, receive_counts, .. } => {
                Call::AllToAll { send: keep(send_counts), receive: keep(receive_counts) }
            }
            Self::Reduce { root, data, combining: Combining { dtype, op, .. } } => {
                Call::Reduce { root: world_rank(*root), bytes: data.len(), dtype: *dtype, op: *op }
            }
            Self::AllReduce { data, combining: Combining { dtype, op, .. } } => {
                Call::AllReduce { bytes: data.len(), dtype: *dtype, op: *op }
            }
            Self::ReduceScatter { counts, combining: Combining { dtype, op, .. }, .. } => {
                Call::ReduceScatter { counts: keep(counts), dtype: *dtype, op: *op }
            }
            Self::Headers { tag, .. } => Call::Headers { about: tag.clone() },
        }
    }

    /// Returns whether it is a reduction that the communicator must carry out in rank order; for integers, any order will do.
    pub(super) fn is_in_order(&self) -> bool {
        match self {
            Self::Reduce { combining, .. }
            | Self::AllReduce { combining, .. }
            | Self::ReduceScatter { combining, .. } => {
                combining.by != SumAlgorithm::Library && combining.dtype.is_float()
            }
            _ => false,
        }
    }

    /// Returns the bytes of this collective that [`received`](super::Communicator::received) counts.
    pub(super) fn received(&self, size: usize, rank: usize) -> usize {
        let sum = |bytes: usize, root: Option<usize>, combining: &Combining| {
            received_in_sum(bytes, size, rank, root, combining.dtype, combining.by)
        };
        match self {
            Self::Barrier | Self::Headers { .. } | Self::Broadcast(Broadcast::Send(_)) => 0,
            Self::Broadcast(Broadcast::Receive { into, .. }) => into.len(),
            Self::AllGather { send, into, .. } => into.len() - send.len(),
            Self::AllToAll { into, receive_counts, .. } => into.len() - receive_counts[rank],
            Self::Reduce { root, data, combining } => sum(data.len(), Some(*root), combining),
            Self::AllReduce { data, combining } => sum(data.len(), None, combining),
            Self::ReduceScatter { into, .. } => into.len() * (size - 1),
        }
    }
}

/// Returns the bytes that a rank receives in a reduction of `len` bytes to one rank, or to all without a root.
pub fn received_in_sum(
    len: usize,
    size: usize,
    rank: usize,
    root: Option<usize>,
    dtype: DType,
    by: SumAlgorithm,
) -> usize {
    SumKind::new(dtype, by).received(len as u64, size as u64, rank as u64, root.map(|root| root as u64)) as usize
}
