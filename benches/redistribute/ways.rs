//! The ways to redistribute an array, and the copy that they are compared with.

use crate::problem::Problem;
use ndarray::{ArrayView2, ArrayViewMut2, s};
use polyshard::prelude::*;
use polyshard::runtime::{Redistribution, Result};
use polyshard_testing::bench::clock::together;

/// A contestant with separate arrays, so that none warms the cache of another.
pub(crate) struct Way {
    /// Its name in the table.
    pub(crate) name: &'static str,
    source: DistArray<f64>,
    target: DistArray<f64>,
    how: How,
}

/// The operation of a way.
enum How {
    /// One of our plans.
    Plan(Box<Redistribution>),
    /// Every rank gathers the whole matrix and copies its part.
    Gather { whole: Vec<f64> },
    /// No redistribution: each rank copies its tile with `memcpy`, all at the same time.
    Copy,
}

impl Way {
    /// Returns one of our ways, with its output in memory that the plan reaches best if `shared`, otherwise in ordinary
    /// memory.
    pub(crate) fn plan(
        world: &World,
        problem: &Problem,
        name: &'static str,
        plan: Redistribution,
        shared: bool,
    ) -> polyshard::Result<Self> {
        let target = if shared { plan.output(world)? } else { DistArray::filled(world, &problem.target, 0.0)? };
        Ok(Self { name, source: problem.before(world)?, target, how: How::Plan(Box::new(plan)) })
    }

    /// Returns the way that gathers the whole matrix.
    pub(crate) fn gather(world: &World, problem: &Problem) -> polyshard::Result<Self> {
        let whole = vec![0.0; problem.source.shape().iter().product()];
        let target = DistArray::filled(world, &problem.target, 0.0)?;
        Ok(Self { name: "gather", source: problem.before(world)?, target, how: How::Gather { whole } })
    }

    /// Returns the copy of a tile.
    pub(crate) fn copy(world: &World, problem: &Problem) -> polyshard::Result<Self> {
        let target = DistArray::filled(world, &problem.source, 0.0)?;
        Ok(Self { name: "memcpy", source: problem.before(world)?, target, how: How::Copy })
    }

    /// Runs it once, and returns the seconds from the first rank's start to the last rank's end.
    ///
    /// # Errors
    /// If it cannot run, or a rank fails.
    pub(crate) fn turn(&mut self, world: &World) -> polyshard::Result<f64> {
        let Self { source, target, how, .. } = self;
        Ok(together(world, || match how {
            How::Plan(plan) => plan.run_into(world, source, target),
            How::Gather { whole } => gather(world, source, whole, target),
            How::Copy => {
                target.block_mut().copy_from_slice(source.block());
                Ok(())
            }
        })?)
    }

    /// Checks that this rank has its part of the array.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn check(&self, world: &World, problem: &Problem) -> polyshard::Result<()> {
        let right = match self.how {
            How::Copy => self.target.block() == self.source.block(),
            How::Plan(_) | How::Gather { .. } => problem.arrived(world, &self.target)?,
        };
        assert!(right, "{}: rank {} does not have its part of the array", self.name, world.rank());
        Ok(())
    }
}

/// Gathers the tiles of a matrix on every rank, one after the other, and copies this rank's part from each.
fn gather(world: &World, source: &DistArray<f64>, whole: &mut [f64], target: &mut DistArray<f64>) -> Result<()> {
    let (from, to) = (source.sharding().clone(), target.sharding().clone());
    let mesh = from.mesh();
    let counts: Vec<usize> = (0..mesh.size()).map(|rank| from.local_len(&mesh.coordinates(rank))).collect();
    let bytes: Vec<usize> = counts.iter().map(|count| count * size_of::<f64>()).collect();
    world.comm().all_gather(bytemuck::cast_slice(source.block()), bytemuck::cast_slice_mut(whole), &bytes)?;

    let [rows, columns] = tile(&to, world.rank());
    let mut mine = ArrayViewMut2::from_shape((rows.len(), columns.len()), target.block_mut()).expect("a dense tile");
    let mut at = 0;
    for (rank, count) in counts.into_iter().enumerate() {
        let theirs = tile(&from, rank);
        let data = &whole[at..at + count];
        at += count;
        let data = ArrayView2::from_shape((theirs[0].len(), theirs[1].len()), data).expect("a dense tile");
        let both = |dim: usize, mine: &std::ops::Range<usize>| {
            let start = mine.start.max(theirs[dim].start);
            start..mine.end.min(theirs[dim].end).max(start)
        };
        let (i, j) = (both(0, &rows), both(1, &columns));
        let within = |range: &std::ops::Range<usize>, start: usize| range.start - start..range.end - start;
        let from = s![within(&i, theirs[0].start), within(&j, theirs[1].start)];
        let to = s![within(&i, rows.start), within(&j, columns.start)];
        if !i.is_empty() && !j.is_empty() {
            mine.slice_mut(to).assign(&data.slice(from));
        }
    }
    Ok(())
}

/// The rows and columns of a matrix that a rank owns.
fn tile(sharding: &Sharding, rank: usize) -> [std::ops::Range<usize>; 2] {
    let coordinates = sharding.mesh().coordinates(rank);
    [0, 1].map(|dim| {
        let mut pieces = sharding.pieces(dim, &coordinates, 0..sharding.shape()[dim]);
        pieces.next().map_or(0..0, |(range, _)| range)
    })
}
