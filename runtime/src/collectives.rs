//! Collectives on typed slices: of all ranks, or of those along some axes of a mesh.
//!
//! The [`Communicator`] moves bytes whose counts are known; this module adds elements, lengths that ranks exchange, and
//! one order of summation everywhere. For reductions by steps that suit a machine, see [`Reduction`](crate::Reduction).

mod lengths;

use crate::comm::{Broadcast, Combining, Communicator, SumAlgorithm};
use crate::{Element, Group, ReduceOp, Result, World};
use bytemuck::{cast_slice, cast_slice_mut};
use lengths::{Gathering, Lengths};

/// The collectives of a [`World`], for all ranks, and of a [`Group`], for the ranks along some axes of a mesh.
///
/// Every rank of the world or group must make the same calls, in the same order, with the same root, operation and
/// element type. On threads, and on MPI in a [checked program](crate::spmd_checked), ranks that do not get an error
/// that names the call of each of them. Ranks are numbered by [`rank`](World::rank), in a group by [`Group::rank`].
///
/// **Sums are taken in rank order**, `((x0 + x1) + x2) + ..` for each element, on threads, on MPI and on emulated
/// machines, so that a program gives the same bits on all of them and in every run. For an order that the MPI library
/// chooses, call [`Communicator::all_reduce`] of [`World::comm`].
///
/// ```
/// use polyshard::prelude::*;
///
/// let mesh = Mesh::new([("x", 2), ("y", 3)]);
/// let results = spmd(6, |world| {
///     // Over all ranks: 0 + 1 + .. + 5.
///     let mut sum = [world.rank() as f64];
///     world.all_reduce(&mut sum, ReduceOp::Sum)?;
///     // Along x: ranks 0 and 3, 1 and 4, 2 and 5.
///     let pair = world.group(&mesh, &[0])?.all_gather(&[world.rank() as i32])?;
///     Ok((sum, pair))
/// })?;
/// assert_eq!(results[4], ([15.0], vec![1, 4]));
/// # Ok::<(), polyshard::Error>(())
/// ```
pub trait Collectives {
    /// Returns the communicator of the ranks that take part.
    fn communicator(&self) -> &dyn Communicator;

    /// Broadcasts the root's `data` to every rank; it has the same length on all ranks (MPI 3.1, section 5.4).
    ///
    /// ```text
    /// before   rank 0: . .     rank 1: a b     rank 2: . .
    /// after    each rank: a b
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let data = spmd(3, |world| {
    ///     let mut data = if world.rank() == 1 { [3.5, 4.5] } else { [0.0; 2] };
    ///     world.broadcast(&mut data, 1)?;
    ///     Ok(data)
    /// })?;
    /// assert_eq!(data, [[3.5, 4.5]; 3]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If rank `root` does not exist, another rank failed, or ranks are found to make different calls.
    fn broadcast<T: Element>(&self, data: &mut [T], root: usize) -> Result<()> {
        let comm = self.communicator();
        let data: &mut [u8] = cast_slice_mut(data);
        Ok(comm.broadcast(match comm.rank() == root {
            true => Broadcast::Send(data),
            false => Broadcast::Receive { root, into: data },
        })?)
    }

    /// Combines the ranks' `data` element by element, in rank order; the root's `data` becomes the result, and the
    /// others' are unspecified afterwards (MPI 3.1, section 5.9.1). They have the same length on all ranks.
    ///
    /// ```text
    /// before   rank 0: a0 a1            rank 1: b0 b1     rank 2: c0 c1
    /// after    rank 0: a0+b0+c0 a1+b1+c1
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let greatest = spmd(4, |world| {
    ///     let mut data = [world.rank() as i64, -(world.rank() as i64)];
    ///     world.reduce(&mut data, ReduceOp::Max, 2)?;
    ///     Ok(data)
    /// })?;
    /// assert_eq!(greatest[2], [3, 0]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn reduce<T: Element>(&self, data: &mut [T], op: ReduceOp, root: usize) -> Result<()> {
        let comm = self.communicator();
        let combining = Combining::in_order(T::DTYPE, op, size_of_val(data), comm.size());
        Ok(comm.reduce(root, cast_slice_mut(data), combining)?)
    }

    /// Combines the ranks' `data` element by element, in rank order, into the `data` of every rank
    /// (MPI 3.1, section 5.9.6). They have the same length on all ranks.
    ///
    /// ```text
    /// before   rank 0: a0 a1     rank 1: b0 b1     rank 2: c0 c1
    /// after    each rank: a0+b0+c0 a1+b1+c1
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let norms = spmd(4, |world| {
    ///     // A single number is a slice of one.
    ///     let mut square = (world.rank() as f32).powi(2);
    ///     world.all_reduce(std::slice::from_mut(&mut square), ReduceOp::Sum)?;
    ///     Ok(square.sqrt())
    /// })?;
    /// assert_eq!(norms, [14f32.sqrt(); 4]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn all_reduce<T: Element>(&self, data: &mut [T], op: ReduceOp) -> Result<()> {
        let comm = self.communicator();
        let combining = Combining::in_order(T::DTYPE, op, size_of_val(data), comm.size());
        Ok(comm.all_reduce(cast_slice_mut(data), combining)?)
    }

    /// Combines the ranks' `data` in rank order and returns this rank's part: `counts[r]` elements go to rank `r`
    /// (MPI 3.1, section 5.10). `counts` are the same on all ranks and sum to the length of `data`.
    ///
    /// ```text
    /// counts [1, 2]
    /// before   rank 0: a0 a1 a2     rank 1: b0 b1 b2
    /// after    rank 0: a0+b0        rank 1: a1+b1 a2+b2
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let parts = spmd(2, |world| Ok(world.reduce_scatter(&[1.0, 2.0, 3.0], &[1, 2], ReduceOp::Sum)?))?;
    /// assert_eq!(parts, [vec![2.0], vec![4.0, 6.0]]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast), and if there is not one count per rank or their sum is not the length.
    fn reduce_scatter<T: Element>(&self, data: &[T], counts: &[usize], op: ReduceOp) -> Result<Vec<T>> {
        let comm = self.communicator();
        lengths::check_counts(comm.size(), counts, data.len())?;
        let mut into = vec![T::ZERO; counts[comm.rank()]];
        let bytes: Vec<usize> = counts.iter().map(|count| count * size_of::<T>()).collect();
        comm.reduce_scatter(
            cast_slice(data),
            cast_slice_mut(&mut into),
            &bytes,
            Combining { dtype: T::DTYPE, op, by: SumAlgorithm::ReduceScatterGather },
        )?;
        Ok(into)
    }

    /// Returns the data of all ranks, in rank order (MPI 3.1, section 5.7). They may differ in length; the ranks
    /// exchange the lengths first.
    ///
    /// ```text
    /// before   rank 0: a     rank 1: b b     rank 2: (nothing)     rank 3: d
    /// after    each rank: a b b d
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let all = spmd(3, |world| Ok(world.all_gather(&vec![world.rank() as i32; world.rank()])?))?;
    /// assert_eq!(all, vec![[1, 2, 2]; 3]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast), and if ranks gather different element types.
    fn all_gather<T: Element>(&self, data: &[T]) -> Result<Vec<T>> {
        let comm = self.communicator();
        let lengths = Lengths::told::<T>(comm, Gathering::AllGather, data.len(), 0)?;
        let mut into = vec![T::ZERO; lengths.sum()];
        comm.all_gather(cast_slice(data), cast_slice_mut(&mut into), &lengths.bytes())?;
        Ok(into)
    }

    /// Returns on the root the data of all ranks, in rank order, and `None` on the others (MPI 3.1, section 5.5).
    /// They may differ in length.
    ///
    /// ```text
    /// before   rank 0: a     rank 1: b b     rank 2: c
    /// after    rank 0: a b b c
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let gathered = spmd(3, |world| Ok(world.gather(&[world.rank() as f64], 0)?))?;
    /// assert_eq!(gathered, [Some(vec![0.0, 1.0, 2.0]), None, None]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    fn gather<T: Element>(&self, data: &[T], root: usize) -> Result<Option<Vec<T>>> {
        let comm = self.communicator();
        let lengths = Lengths::told::<T>(comm, Gathering::Gather { root }, data.len(), 0)?;
        let is_root = comm.rank() == root;
        let mut into = vec![T::ZERO; if is_root { lengths.sum() } else { 0 }];
        let mut receives = if is_root { lengths.parts_mut(&mut into) } else { Vec::new() };
        comm.exchange(&[(root, cast_slice(data))], &mut receives)?;
        Ok(is_root.then_some(into))
    }

    /// Sends each rank its part of the root's `data`, of the length of its `into`, in rank order (MPI 3.1, section
    /// 5.6). The `data` of other ranks is ignored; it may be empty.
    ///
    /// ```text
    /// before   rank 0: a b c d
    /// after    rank 0: a     rank 1: b c     rank 2: d
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let parts = spmd(2, |world| {
    ///     let mut part = vec![0; 1 + world.rank()];
    ///     let data = if world.rank() == 0 { vec![7, 8, 9] } else { vec![] };
    ///     world.scatter(&data, &mut part, 0)?;
    ///     Ok(part)
    /// })?;
    /// assert_eq!(parts, [vec![7], vec![8, 9]]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather), and on all ranks if the parts together do not have the length of the root's
    /// `data`.
    fn scatter<T: Element>(&self, data: &[T], into: &mut [T], root: usize) -> Result<()> {
        let comm = self.communicator();
        let lengths = Lengths::told::<T>(comm, Gathering::Scatter { root }, into.len(), data.len())?;
        lengths.check_scatter(comm, root)?;
        let is_root = comm.rank() == root;
        let sends = if is_root { lengths.parts(data) } else { Vec::new() };
        Ok(comm.exchange(&sends, &mut [(root, cast_slice_mut(into))])?)
    }

    /// Sends `parts[r]` to each rank `r` and returns the parts that the ranks have sent to this one, in rank order (MPI
    /// 3.1, section 5.8). Parts may have any lengths.
    ///
    /// ```text
    /// before   rank 0: a0 a1     rank 1: b0 b1
    /// after    rank 0: a0 b0     rank 1: a1 b1
    /// ```
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let received = spmd(2, |world| match world.rank() {
    ///     0 => Ok(world.all_to_all(&[vec![1.0], vec![2.0, 3.0]])?),
    ///     _ => Ok(world.all_to_all(&[vec![], vec![4.0]])?),
    /// })?;
    /// assert_eq!(received, [[vec![1.0], vec![]], [vec![2.0, 3.0], vec![4.0]]]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather), and if there is not one part per rank.
    fn all_to_all<T: Element, P: AsRef<[T]>>(&self, parts: &[P]) -> Result<Vec<Vec<T>>> {
        let comm = self.communicator();
        let parts: Vec<&[T]> = parts.iter().map(|part| part.as_ref()).collect();
        lengths::check_parts(comm.size(), parts.len())?;
        let sent = Lengths::of(parts.iter().map(|part| part.len()).collect(), size_of::<T>());
        let received = sent.transposed::<T>(comm)?;
        let mut into = vec![T::ZERO; received.sum()];
        let send = parts.concat();
        comm.all_to_all(cast_slice(&send), &sent.bytes(), cast_slice_mut(&mut into), &received.bytes())?;
        Ok(received.split(&into))
    }

    /// Waits until all ranks have called this (MPI 3.1, section 5.3).
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn barrier(&self) -> Result<()> {
        Ok(self.communicator().barrier()?)
    }

    /// Sends `data` to rank `to`, another rank, which must [`receive`](Self::receive) as many elements
    /// (MPI 3.1, section 3.2).
    ///
    /// It may wait for the receiver: ranks that both send first should [`exchange`](Self::exchange) instead.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let received = spmd(2, |world| {
    ///     let mut data = [2.5, 3.5];
    ///     match world.rank() {
    ///         0 => world.send(&data, 1)?,
    ///         _ => {
    ///             data = [0.0; 2];
    ///             world.receive(&mut data, 0)?;
    ///         }
    ///     }
    ///     Ok(data)
    /// })?;
    /// assert_eq!(received, [[2.5, 3.5]; 2]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `to` is this rank or does not exist, another rank failed, or the ranks wait for each other in a circle.
    fn send<T: Element>(&self, data: &[T], to: usize) -> Result<()> {
        Ok(self.communicator().send(to, cast_slice(data))?)
    }

    /// Receives the next message from rank `from`, which must be as long as `into` (MPI 3.1, section 3.2).
    ///
    /// # Errors
    /// As [`send`](Self::send), and if the lengths differ.
    fn receive<T: Element>(&self, into: &mut [T], from: usize) -> Result<()> {
        Ok(self.communicator().receive(from, cast_slice_mut(into))?)
    }

    /// Sends and receives all the messages given, each as (rank, data), without regard to their order
    /// (MPI 3.1, section 3.7). Messages between the same two ranks match in the order listed; messages to itself are
    /// allowed.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// // Everyone gets what the rank before it has.
    /// let shifted = spmd(4, |world| {
    ///     let (rank, mut from_before) = (world.rank(), [0]);
    ///     world.exchange(&[((rank + 1) % 4, &[rank as i32])], &mut [((rank + 3) % 4, &mut from_before)])?;
    ///     Ok(from_before[0])
    /// })?;
    /// assert_eq!(shifted, [3, 0, 1, 2]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    fn exchange<T: Element>(&self, sends: &[(usize, &[T])], receives: &mut [(usize, &mut [T])]) -> Result<()> {
        let sends: Vec<(usize, &[u8])> = sends.iter().map(|&(to, data)| (to, cast_slice(data))).collect();
        let receives = receives.iter_mut().map(|(from, into)| (*from, cast_slice_mut(into)));
        Ok(self.communicator().exchange(&sends, &mut receives.collect::<Vec<_>>())?)
    }
}

impl Collectives for World {
    fn communicator(&self) -> &dyn Communicator {
        self.comm()
    }
}

impl Collectives for Group {
    fn communicator(&self) -> &dyn Communicator {
        self.comm()
    }
}
