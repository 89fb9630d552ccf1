//! Collecting an array on rank 0, a bounded piece at a time.

use super::save::agreed;
use crate::instances::Instances;
use crate::memory::Buffer;
use crate::region::row_major;
use crate::subarray::{Place, Subarray, mail};
use crate::{DistArray, Element, Region, Result, World, at_caller, memory};
use bytemuck::cast_slice;
use ndarray::ArrayD;

/// Bytes of a piece: collecting needs only a few of them beside the result, whatever its size.
const PIECE: usize = 1 << 20;

impl<T: Element> DistArray<T> {
    /// Returns the whole array on rank 0, and nothing on the others; collective over the world.
    ///
    /// Every element is sent once, by one of its owners, to rank 0 (MPI 3.1, section 3.2), which stages a few
    /// MiB beside the result.
    ///
    /// # Errors
    /// On all ranks, if it holds partial sums, or does not fit in the memory of rank 0. If another rank failed.
    ///
    /// # Panics
    /// If the pieces do not make up the array: a bug in polyshard.
    #[track_caller]
    pub fn gather(&self, world: &World) -> Result<Option<ArrayD<T>>> {
        at_caller(T::gather(self, world))
    }

    pub(crate) fn gathered(&self, world: &World) -> Result<Option<ArrayD<T>>> {
        self.closed("gathered")?;
        let len = if world.is_root() { self.shape().iter().product() } else { 0 };
        let what = format_args!("all of an array of shape {:?} on rank 0", self.shape());
        let mut whole = agreed(world, memory::room(len, what).map_err(Into::into))?;
        self.collect(world, |piece| whole.extend_from_slice(piece))?;
        if !world.is_root() {
            return Ok(None);
        }
        let array = ArrayD::from_shape_vec(self.shape(), whole);
        Ok(Some(array.unwrap_or_else(|why| panic!("gathered another shape: {why}; this is a bug in polyshard"))))
    }

    /// Calls `take` on rank 0 with the elements of the array, row-major, one piece after the other.
    ///
    /// Other ranks send their part of a piece when rank 0 requests it, which it does before it takes the previous piece: at most two are in
    /// flight, however slow rank 0 is.
    pub(super) fn collect(&self, world: &World, mut take: impl FnMut(&[T])) -> Result<()> {
        let comm = world.comm();
        let mesh = self.sharding().mesh();
        let (mut piece, mut staging) = (Buffer::<T>::default(), Buffer::default());
        let reader = mesh.coordinates(0);
        let part = |rank, region: &Region| Subarray::read(self.sharding(), &mesh.coordinates(rank), &reader, region);
        let mut regions = pieces(self.shape(), PIECE / size_of::<T>());
        if !world.is_root() {
            return regions.try_for_each(|region| {
                let own = part(world.rank(), &region);
                if own.len() == 0 {
                    return Ok(());
                }
                comm.receive(0, &mut [0])?;
                // On threads, rank 0 copies it out of this rank's memory.
                Ok(comm.exchange(&[(0, cast_slice(own.packed(Place::Block, self.block(), &mut staging)?))], &mut [])?)
            });
        }
        let ask = |region: Region| -> Result<_> {
            let parts = (0..world.size()).map(|rank| (rank, part(rank, &region))).filter(|(_, part)| part.len() > 0);
            let parts: Vec<_> = parts.collect();
            parts.iter().filter(|(rank, _)| *rank != 0).try_for_each(|(rank, _)| comm.send(*rank, &[0]))?;
            Ok((region.len(), parts))
        };
        let mut asked = regions.next().map(ask).transpose()?;
        while let Some((len, parts)) = asked {
            piece.grow(len, "a piece of an array")?;
            let piece = &mut piece[..len];
            for (rank, part) in parts {
                match rank {
                    0 => part.copy(Place::Block, self.block(), Place::Region, piece),
                    _ => mail::receive(&part, piece, &mut staging, |into| Ok(comm.receive(rank, into)?))?,
                }
            }
            asked = regions.next().map(ask).transpose()?;
            take(piece);
        }
        Ok(())
    }
}

/// Divides an array of `shape` into regions of at most `limit` elements, consecutive in row-major order.
fn pieces(shape: &[usize], limit: usize) -> impl Iterator<Item = Region> {
    let strides = row_major(shape);
    // An array of one element has no dimension to be cut.
    let cut = (0..shape.len()).find(|&dim| strides[dim] <= limit);
    let (extent, rows) =
        cut.map_or((1, 1), |cut| (shape[cut], (limit / strides[cut].max(1)).clamp(1, shape[cut].max(1))));
    let outer = if shape.contains(&0) { 0 } else { shape[..cut.unwrap_or(0)].iter().product() };
    let starts = (0..outer).flat_map(move |at| (0..extent).step_by(rows).map(move |start| (at, start)));
    starts.map(move |(mut at, start): (usize, usize)| {
        let mut ranges: Vec<_> = shape.iter().map(|&extent| 0..extent as i64).collect();
        let Some(cut) = cut else { return Region::new(ranges) };
        ranges[cut] = start as i64..(start + rows).min(shape[cut]) as i64;
        for dim in (0..cut).rev() {
            let index = (at % shape[dim]) as i64;
            ranges[dim] = index..index + 1;
            at /= shape[dim];
        }
        Region::new(ranges)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The pieces in order are the array, and none exceeds the limit.
        #[test]
        fn pieces_follow_one_another(shape in prop::collection::vec(0usize..6, 0..4), limit in 1usize..40) {
            let strides = row_major(&shape);
            let mut next = 0;
            for piece in pieces(&shape, limit) {
                let start: usize = piece.start().iter().zip(&strides).map(|(&i, stride)| i as usize * stride).sum();
                prop_assert_eq!(start, next);
                prop_assert!(piece.len() <= limit);
                next += piece.len();
            }
            prop_assert_eq!(next, shape.iter().product::<usize>());
        }
    }
}
