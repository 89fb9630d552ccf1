//! Laws of the collectives on typed slices.

use super::bits;
use polyshard_runtime::comm::Communicator;
use polyshard_runtime::{Collectives, Element, ReduceOp, Result};

/// The collectives of a communicator, so that these laws hold for every communicator.
struct Typed<'a>(&'a dyn Communicator);

impl Collectives for Typed<'_> {
    fn communicator(&self) -> &dyn Communicator {
        self.0
    }
}

pub(super) fn sums_are_in_rank_order(comm: &dyn Communicator) -> Result<()> {
    // None, one, some, and enough for each rank to sum a piece.
    for len in [0, 1, 37, 9_001] {
        in_rank_order::<f32>(comm, ReduceOp::Sum, len)?;
        in_rank_order::<f64>(comm, ReduceOp::Sum, len)?;
    }
    for op in [ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
        in_rank_order::<f32>(comm, op, 37)?;
        in_rank_order::<i64>(comm, op, 37)?;
    }
    in_rank_order::<i32>(comm, ReduceOp::Sum, 37)
}

/// Element `i` of a rank: magnitudes differ enough for sums of floats to depend on the order.
fn uneven<T: Element>(rank: usize, i: usize) -> T {
    let value = ((rank * 7919 + i * 31) % 2003) as f64 - 1001.3;
    num_traits::cast(value * [1.0, 1e5, 1e-3, 1e2][(rank + i) % 4]).expect("the number is of every type")
}

fn in_rank_order<T: Element>(comm: &dyn Communicator, op: ReduceOp, len: usize) -> Result<()> {
    let (typed, rank, size) = (Typed(comm), comm.rank(), comm.size());
    let mine: Vec<T> = (0..len).map(|i| uneven(rank, i)).collect();
    let expected: Vec<T> =
        (0..len).map(|i| (1..size).fold(uneven(0, i), |sum, other| op.combine(sum, uneven(other, i)))).collect();
    let what = format!("{op:?} of {len} {}", T::DTYPE.name());

    let (mut data, before) = (mine.clone(), comm.bytes_received());
    typed.all_reduce(&mut data, op)?;
    assert!(bits(&data) == bits(&expected), "{what} to all");
    // Each rank receives short floats, and those of two ranks, whole from all ranks; of longer ones it receives a piece
    // from each rank, and then the others' sums.
    let bytes = size_of::<T>();
    let is_whole = matches!(T::DTYPE.name(), "i32" | "i64") || size <= 2 || len * bytes * size <= 1 << 16;
    let own = len / size + usize::from(rank < len % size);
    let received = if is_whole { len * (size - 1) } else { own * (size - 1) + len - own };
    assert_eq!(comm.bytes_received() - before, (received * bytes) as u64, "{what}");

    // One root suffices except for some cases: laws run often.
    for root in if len == 37 && op == ReduceOp::Sum { 0..size } else { size - 1..size } {
        let (mut data, before) = (mine.clone(), comm.bytes_received());
        typed.reduce(&mut data, op, root)?;
        assert!(rank != root || bits(&data) == bits(&expected), "{what} to {root}");
        let last = if rank == root { len - own } else { 0 };
        let whole = if rank == root { len * (size - 1) } else { 0 };
        let received = if is_whole { whole } else { own * (size - 1) + last };
        assert_eq!(comm.bytes_received() - before, (received * bytes) as u64, "{what} to {root}");
    }

    // Ragged parts; the last rank gets the rest.
    let mut counts: Vec<usize> = (0..size).map(|rank| len / (2 * size) + rank % 2 * (len / (4 * size))).collect();
    counts[size - 1] = len - counts[..size - 1].iter().sum::<usize>();
    let start: usize = counts[..rank].iter().sum();
    let parts = typed.reduce_scatter(&mine, &counts, op)?;
    assert!(bits(&parts) == bits(&expected[start..start + counts[rank]]), "{what} in parts of {counts:?}");
    Ok(())
}

/// Element `i` that `from` has for `to`.
fn element(from: usize, to: usize, i: usize) -> i64 {
    (from * 1_000_000 + to * 10_000 + i) as i64
}

fn elements(from: usize, to: usize, len: usize) -> Vec<i64> {
    (0..len).map(|i| element(from, to, i)).collect()
}

pub(super) fn gathers_and_scatters_are_in_rank_order(comm: &dyn Communicator) -> Result<()> {
    let (typed, rank, size) = (Typed(comm), comm.rank(), comm.size());
    let lengths: [fn(usize) -> usize; 3] = [|_| 5, |rank| rank * 3 % 7, |_| 0];
    for len in lengths {
        let expected: Vec<i64> = (0..size).flat_map(|from| elements(from, 0, len(from))).collect();
        assert_eq!(typed.all_gather(&elements(rank, 0, len(rank)))?, expected);
        for root in 0..size {
            let gathered = typed.gather(&elements(rank, 0, len(rank)), root)?;
            assert_eq!(gathered, (rank == root).then(|| expected.clone()));
            // Each rank gets its own data back.
            let mut part = vec![-1; len(rank)];
            typed.scatter(&gathered.unwrap_or_default(), &mut part, root)?;
            assert_eq!(part, elements(rank, 0, len(rank)));
        }
    }
    Ok(())
}

pub(super) fn typed_messages_arrive(comm: &dyn Communicator) -> Result<()> {
    let (typed, rank, size) = (Typed(comm), comm.rank(), comm.size());
    for root in 0..size {
        let mut data = if rank == root { vec![0.25f32, root as f32] } else { vec![f32::NAN; 2] };
        typed.broadcast(&mut data, root)?;
        assert_eq!(data, [0.25, root as f32]);
    }
    let len = |from: usize, to: usize| (from * 5 + to * 3) % 11;
    let parts: Vec<Vec<i64>> = (0..size).map(|to| elements(rank, to, len(rank, to))).collect();
    let expected: Vec<Vec<i64>> = (0..size).map(|from| elements(from, rank, len(from, rank))).collect();
    assert_eq!(typed.all_to_all(&parts)?, expected);
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut into = [0i64; 9];
    typed.exchange(&[(to, &elements(rank, to, 9))], &mut [(from, &mut into)])?;
    assert_eq!(into[..], elements(from, rank, 9));
    if size > 1 && rank < 2 {
        let mut into = [0i64; 4];
        if rank == 0 {
            typed.send(&elements(0, 1, 4), 1)?;
        } else {
            typed.receive(&mut into, 0)?;
            assert_eq!(into[..], elements(0, 1, 4));
        }
    }
    typed.barrier()
}
