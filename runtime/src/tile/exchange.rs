//! Tiles that pairs of ranks hand one another: permutations, and exchanges of any pattern.

use super::{Held, Tile, one_box, owned, with_others};
use crate::layout::Reach;
use crate::subarray::{Place, Subarray, mail};
use crate::{DistArray, Element, Grid, Region, Result};
use std::ops::Range;

impl<T: Element> Tile<T> {
    /// Receives `region` from the world's rank `from`, which owns all of it, and sends the rank and region of
    /// `to` out of this rank's shard (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// before   rank 0: a    rank 1: b    rank 2: c
    /// after    rank 0: c    rank 1: a    rank 2: b        (from = rank - 1, to = rank + 1)
    /// ```
    ///
    /// Nothing is received if `region` is empty, and nothing is sent if `to` is none or its region is empty. A
    /// region of this rank's own shard is held, or copied if it is scattered there.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a region is not the sender's own: a bug of polyshard.
    pub fn permute(
        &mut self,
        grid: &Grid<'_>,
        from: usize,
        to: Option<(usize, Region)>,
        source: &DistArray<T>,
        region: &Region,
    ) -> Result<()> {
        let me = grid.world().rank();
        one_box(region);
        let mut sends = Vec::new();
        if let Some((to, region)) = to.filter(|(to, region)| *to != me && !region.is_empty()) {
            sends.push((to, owned(source, source.coordinates(), &region)));
        }
        let local = from == me || region.is_empty();
        let into = if local { &mut [] } else { super::room(&mut self.buffer, region) };
        let mut receives = [(from, into)];
        let receives = if local { &mut receives[..0] } else { &mut receives };
        let comm = grid.world().comm();
        mail::exchange(comm, &sends, Place::Block, source.block(), &mut self.outgoing, receives)?;
        if region.is_empty() {
            self.held = Held::Nothing;
        } else if from == me {
            self.hold_or_copy(source, region);
        } else {
            self.held = Held::Buffer(region.clone());
        }
        Ok(())
    }

    /// Gives each rank of the grid the region that `region_of` says for its coordinates, whoever owns it.
    ///
    /// Each element comes from the owner that [`Sharding::owner`](crate::layout::Sharding::owner) names for the
    /// reader. Both sides work out the same messages, one per pair of ranks (MPI 3.1, section 3.7), and a rank
    /// sends what others read of its shard, nothing more. A region of this rank's own shard is held, or copied
    /// if it is scattered there. `reach` says, per axis, how far owners are from their readers: no other ranks are
    /// looked at, so that working out the messages takes time in proportion to the number of ranks in reach.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a region leaves the array, or an owner is out of reach: a bug of polyshard.
    pub fn exchange(
        &mut self,
        grid: &Grid<'_>,
        reach: &[Reach],
        source: &DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        self.fetch(grid, reach, source, region_of, |_| None)
    }

    /// As [`exchange`](Self::exchange), but what this rank owns of the region is not copied: a nest reads it where it
    /// lies. Other leaves cannot.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// As for [`exchange`](Self::exchange).
    pub fn halo(
        &mut self,
        grid: &Grid<'_>,
        reach: &[Reach],
        source: &DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        self.fetch(grid, reach, source, region_of, |region| interior(source, region))
    }

    /// As [`exchange`](Self::exchange), around what `interior` says of the region.
    fn fetch(
        &mut self,
        grid: &Grid<'_>,
        reach: &[Reach],
        source: &DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
        interior: impl Fn(&Region) -> Option<Vec<Range<i64>>>,
    ) -> Result<()> {
        let region = region_of(grid.coords());
        let local = self.receive(grid, reach, source, &region, region_of)?;
        if local.len() == region.distinct() && !region.wraps() {
            self.hold_or_copy(source, &region);
            return Ok(());
        }
        let buffer = super::room(&mut self.buffer, &region);
        self.held = match interior(&region) {
            Some(interior) => {
                // What is at the other side of the end is copied, even if this rank owns it.
                let positions = interior.iter().zip(region.ranges());
                let positions =
                    positions.map(|(own, all)| (own.start - all.start) as usize..(own.end - all.start) as usize);
                local.copy_around(source.block(), buffer, &positions.collect::<Vec<_>>());
                Held::Around(region, interior)
            }
            None => {
                local.copy(Place::Block, source.block(), Place::Region, buffer);
                Held::Buffer(region)
            }
        };
        Ok(())
    }

    /// Sends what others read of this rank's shard, receives what others own of `region` into the buffer, and returns
    /// what this rank owns of it.
    fn receive(
        &mut self,
        grid: &Grid<'_>,
        reach: &[Reach],
        source: &DistArray<T>,
        region: &Region,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<Subarray> {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let local = Subarray::read(sharding, mine, mine, region);
        let mirrored: Vec<_> = reach.iter().map(|reach| reach.mirrored()).collect();
        let send = |reader: &[usize], indices: &[i64]| Subarray::read(sharding, mine, reader, &region_of(indices));
        let sends = with_others(grid, &mirrored, send);
        let receives = with_others(grid, reach, |owner, _| Subarray::read(sharding, owner, mine, region));
        let remote = mail::total(&receives);
        assert!(
            local.len() + remote == region.distinct(),
            "{} of the {} elements of {region} have an owner in reach, in an array sharded {sharding}; this is a bug of \
             polyshard",
            local.len() + remote,
            region.distinct()
        );
        let (comm, block) = (grid.world().comm(), source.block());
        // What is all the rank's own may be held without a buffer.
        let buffer = if remote == 0 { &mut [] } else { super::room(&mut self.buffer, region) };
        mail::receive(&receives, buffer, &mut self.incoming, |into| {
            mail::exchange(comm, &sends, Place::Block, block, &mut self.outgoing, into)
        })?;
        Ok(local)
    }
}

/// The box of this rank's block that is inside the region, if block and region are boxes of the array and meet.
fn interior<T: Element>(source: &DistArray<T>, region: &Region) -> Option<Vec<Range<i64>>> {
    let whole = Subarray::of(source.sharding(), source.coordinates(), &Region::whole(source.shape()));
    let own = whole.region().filter(|own| !own.is_empty() && !region.has_blocks())?;
    let inside = own.ranges().iter().zip(region.ranges()).enumerate().map(|(dim, (own, all))| {
        // Beyond the period, an index means another element.
        let end = region.period(dim).map_or(all.end, |period| all.end.min(period));
        Some(own.start.max(all.start)..own.end.min(end)).filter(|range| range.start < range.end)
    });
    inside.collect()
}
