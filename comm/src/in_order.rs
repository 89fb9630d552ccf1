//! Reductions in rank order, built from messages: the same bits on every communicator.
//!
//! A library adds floats in an order that depends on the length and on where the ranks are. Here each rank receives one
//! piece of all ranks' data, combines it, from rank 0 to the last, and sends it to the ranks that want the result. Integers
//! wrap, and maxima and minima of integers are exact, so for these any order gives the same bits and the library may choose.
//!
//! The algorithm does not affect the bits: either every rank that wants the result receives all ranks' data and combines
//! them, or each rank combines a piece. The caller chooses.

use super::{CollectiveCall, Combining, Communicator, combine_terms};
use crate::{DType, ReduceOp, Result};
use polyshard_layout::{SumAlgorithm, SumKind};
use polyshard_memory::{Buffer, split_mut};

/// Takes part in a reduction that [is in rank order](CollectiveCall::is_in_order), and whose arguments have been
/// [checked](CollectiveCall::check).
pub(super) fn carry_out<C: Communicator + ?Sized>(comm: &C, collective: CollectiveCall<'_>) -> Result<()> {
    match collective {
        CollectiveCall::Reduce { root, data, combining } => reduce(comm, Some(root), data, combining),
        CollectiveCall::AllReduce { data, combining } => reduce(comm, None, data, combining),
        CollectiveCall::ReduceScatter { send, into, counts, combining } => {
            reduce_scatter(comm, send, into, counts, combining.dtype, combining.op)
        }
        _ => unreachable!("only reductions combine in an order; this is a bug in polyshard"),
    }
}

/// Reduces to the root, or to all ranks; see [`Communicator::reduce`] and [`Communicator::all_reduce`].
///
/// ```text
/// two ranks      before           rank 0: a0 a1        rank 1: b0 b1
///                all-to-all       rank 0: a0 b0        rank 1: a1 b1       MPI 3.1, section 5.8
///                combine          rank 0: a0 + b0      rank 1: a1 + b1
///                all-gather       both: a0 + b0, a1 + b1                   MPI 3.1, section 5.7
/// ```
fn reduce<C: Communicator + ?Sized>(
    comm: &C,
    root: Option<usize>,
    data: &mut [u8],
    combining: Combining,
) -> Result<()> {
    let Combining { dtype, op, by } = combining;
    let (size, len) = (comm.size(), data.len());
    let gather = |own: &[u8], into: &mut [u8], counts: &[usize]| match root {
        Some(root) => gather(comm, root, own, into, counts),
        None => comm.all_gather(own, into, counts),
    };
    if by == SumAlgorithm::ReduceScatterGather {
        let pieces = pieces(len, size, dtype);
        let mut own = Buffer::<u8>::new(pieces[comm.rank()], "this rank's share of a reduction")?;
        reduce_scatter(comm, data, &mut own, &pieces, dtype, op)?;
        return gather(&own, data, &pieces);
    }
    let is_wanted = root.is_none_or(|root| root == comm.rank());
    let mut gathered = Buffer::<u8>::new(if is_wanted { len * size } else { 0 }, "the terms of a reduction")?;
    gather(data, &mut gathered, &vec![len; size])?;
    if is_wanted {
        data.copy_from_slice(&gathered[..len]);
        combine_terms(dtype, op, data, gathered[len..].chunks_exact(len.max(1)));
    }
    Ok(())
}

/// Reduces and gives each rank its part; see [`Communicator::reduce_scatter`].
fn reduce_scatter<C: Communicator + ?Sized>(
    comm: &C,
    send: &[u8],
    into: &mut [u8],
    counts: &[usize],
    dtype: DType,
    op: ReduceOp,
) -> Result<()> {
    let size = comm.size();
    let (me, len) = (comm.rank(), into.len());
    let mut staged = Buffer::<u8>::new(len * (size - 1), "the terms of a reduction")?;
    let parts: Vec<_> = crate::starts(counts).zip(counts).map(|(start, &count)| &send[start..start + count]).collect();
    let others = || (0..size).filter(|&rank| rank != me);
    let sends: Vec<_> = others().map(|rank| (rank, parts[rank])).filter(|(_, part)| !part.is_empty()).collect();
    let mut receives: Vec<_> = others().zip(staged.chunks_exact_mut(len.max(1))).collect();
    comm.exchange(&sends, &mut receives)?;
    if len > 0 {
        let mut terms: Vec<_> = receives.iter().map(|(_, part)| &**part).collect();
        terms.insert(me, parts[me]);
        into.copy_from_slice(terms[0]);
        combine_terms(dtype, op, into, terms[1..].iter().copied());
    }
    Ok(())
}

/// Gathers the data of all ranks on the root, `counts[r]` bytes of rank `r`; elsewhere `into` is unchanged
/// (MPI 3.1, section 5.5).
fn gather<C: Communicator + ?Sized>(
    comm: &C,
    root: usize,
    own: &[u8],
    into: &mut [u8],
    counts: &[usize],
) -> Result<()> {
    let counts = if comm.rank() == root { counts } else { &[] };
    let mut receives: Vec<_> = split_mut(into, counts.iter().copied()).enumerate().collect();
    comm.exchange(&[(root, own)], &mut receives)
}

/// Returns the bytes of each rank's piece, as equal as whole elements allow.
fn pieces(len: usize, size: usize, dtype: DType) -> Vec<usize> {
    let elements = len / dtype.size();
    let piece = |rank: usize| SumKind::piece(elements as u64, size as u64, rank as u64) as usize;
    (0..size).map(|rank| piece(rank) * dtype.size()).collect()
}
