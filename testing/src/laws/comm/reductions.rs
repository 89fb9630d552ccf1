//! Laws of the reductions, for each element type and operation.

use super::bits;
use polyshard_runtime::comm::{Combining, Communicator};
use polyshard_runtime::{DType, Element, ReduceOp, Result};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min];

/// Lengths in elements: none, one, some, and more than one chunk of any implementation.
const LENGTHS: [usize; 4] = [0, 1, 37, 20_000];

pub(super) fn reduce_to_each_root(comm: &dyn Communicator) -> Result<()> {
    for_each_type(comm, Reduction::ToRoots)
}

pub(super) fn all_reduce(comm: &dyn Communicator) -> Result<()> {
    for_each_type(comm, Reduction::ToAll)
}

pub(super) fn reduce_scatter(comm: &dyn Communicator) -> Result<()> {
    for_each_type(comm, Reduction::Scatter)
}

#[derive(Clone, Copy)]
enum Reduction {
    ToRoots,
    ToAll,
    Scatter,
}

fn for_each_type(comm: &dyn Communicator, reduction: Reduction) -> Result<()> {
    for op in OPS {
        for len in LENGTHS {
            check::<f32>(comm, reduction, op, len)?;
            check::<f64>(comm, reduction, op, len)?;
            check::<i32>(comm, reduction, op, len)?;
            check::<i64>(comm, reduction, op, len)?;
        }
    }
    Ok(())
}

/// Element `i` of a rank. Integers small enough for sums and products of floats to be exact in any order; for maxima
/// and minima of floats, also special values.
fn element<T: Element>(op: ReduceOp, rank: usize, i: usize) -> T {
    if matches!(op, ReduceOp::Max | ReduceOp::Min) && T::DTYPE.is_float() && i.is_multiple_of(5) {
        let odd = [0.0, -0.0, f64::NAN, f64::NEG_INFINITY, f64::INFINITY, 1.0, -f64::NAN];
        return num_traits::cast(odd[(i / 5 + rank * (i / 35 + 1)) % odd.len()]).expect("it is of every float type");
    }
    let value = match op {
        // A product of powers of two is exact.
        ReduceOp::Product => [1, 2, -1, -2][(rank + i) % 4],
        _ => ((rank * 7919 + i * 31) % 2003) as i64 - 1001,
    };
    num_traits::cast(value).expect("a small number is of every type")
}

fn check<T: Element>(comm: &dyn Communicator, reduction: Reduction, op: ReduceOp, len: usize) -> Result<()> {
    let (rank, size, kind): (_, _, DType) = (comm.rank(), comm.size(), T::DTYPE);
    let mine: Vec<T> = (0..len).map(|i| element(op, rank, i)).collect();
    let combined: Vec<T> = (0..len)
        .map(|i| (1..size).fold(element(op, 0, i), |sum, other| op.combine(sum, element(op, other, i))))
        .collect();
    match reduction {
        Reduction::ToRoots => {
            for root in 0..size {
                let mut data = mine.clone();
                comm.reduce(root, bytemuck::cast_slice_mut(&mut data), Combining::any_order(kind, op))?;
                assert!(
                    rank != root || bits(&data) == bits(&combined),
                    "{op:?} of {} to {root}, {len} elements",
                    T::DTYPE.name()
                );
            }
        }
        Reduction::ToAll => {
            let mut data = mine;
            comm.all_reduce(bytemuck::cast_slice_mut(&mut data), Combining::any_order(kind, op))?;
            assert!(bits(&data) == bits(&combined), "{op:?} of {} to all, {len} elements", T::DTYPE.name());
        }
        Reduction::Scatter => {
            // Equal parts except the last, which takes the rest; then everything to one rank.
            let part = |rank: usize| if rank + 1 == size { len - len / size * rank } else { len / size };
            let one = |rank: usize| if rank == len % size { len } else { 0 };
            for lengths in [&part as &dyn Fn(usize) -> usize, &one] {
                let counts: Vec<_> = (0..size).map(|rank| lengths(rank) * size_of::<T>()).collect();
                let start: usize = (0..rank).map(lengths).sum();
                let mut into = vec![T::ZERO; lengths(rank)];
                let (send, own) = (bytemuck::cast_slice(&mine), bytemuck::cast_slice_mut(&mut into));
                comm.reduce_scatter(send, own, &counts, Combining::any_order(kind, op))?;
                assert!(
                    bits(&into) == bits(&combined[start..start + into.len()]),
                    "{op:?} of {}, parts of {counts:?}",
                    T::DTYPE.name()
                );
            }
        }
    }
    Ok(())
}
