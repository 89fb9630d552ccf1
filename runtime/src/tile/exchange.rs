//! Tiles that pairs of ranks hand one another: permutations, and exchanges of any pattern.

use super::{Held, Overlap, Place, Tile, mail, one_box, owned};
use crate::layout::Reach;
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
        let region = region_of(grid.coords());
        let local = self.receive(grid, reach, source, &region, region_of)?;
        if local.len() == region.distinct() {
            self.hold_or_copy(source, &region);
            return Ok(());
        }
        local.copy(Place::Block, source.block(), Place::Region, super::room(&mut self.buffer, &region));
        self.held = Held::Buffer(region);
        Ok(())
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
        let region = region_of(grid.coords());
        let local = self.receive(grid, reach, source, &region, region_of)?;
        if local.len() == region.distinct() && !region.wraps() {
            self.hold_or_copy(source, &region);
            return Ok(());
        }
        let buffer = super::room(&mut self.buffer, &region);
        self.held = match interior(source, &region) {
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
    ) -> Result<Overlap> {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let local = Overlap::read(sharding, mine, mine, region);
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        let mirrored: Vec<_> = reach.iter().map(|reach| reach.mirrored()).collect();
        for (rank, coordinates, indices) in grid.others(&mirrored) {
            let send = Overlap::read(sharding, mine, &coordinates, &region_of(&indices));
            if send.len() > 0 {
                sends.push((rank, send));
            }
        }
        for (rank, coordinates, _) in grid.others(reach) {
            let receive = Overlap::read(sharding, &coordinates, mine, region);
            if receive.len() > 0 {
                receives.push((rank, receive));
            }
        }
        let remote: usize = receives.iter().map(|(_, overlap)| overlap.len()).sum();
        assert!(
            local.len() + remote == region.distinct(),
            "{} of the {} elements of {region} have an owner in reach, in an array sharded {sharding}; this is a bug of \
             polyshard",
            local.len() + remote,
            region.distinct()
        );
        let (comm, block) = (grid.world().comm(), source.block());
        if remote == 0 {
            mail::exchange(comm, &sends, Place::Block, block, &mut self.outgoing, &mut [])?;
            return Ok(local);
        }
        let buffer = super::room(&mut self.buffer, region);
        if let Some(mut places) = mail::places(&receives, buffer) {
            mail::exchange(comm, &sends, Place::Block, block, &mut self.outgoing, &mut places)?;
        } else {
            self.incoming.grow(remote, "what a tile receives")?;
            let mut parts = mail::parts(&receives, &mut self.incoming);
            mail::exchange(comm, &sends, Place::Block, block, &mut self.outgoing, &mut parts)?;
            for ((_, overlap), (_, packed)) in receives.iter().zip(&parts) {
                overlap.copy(Place::Packed, packed, Place::Region, buffer);
            }
        }
        Ok(local)
    }
}

/// The box of this rank's block that is inside the region, if block and region are boxes of the array and meet.
fn interior<T: Element>(source: &DistArray<T>, region: &Region) -> Option<Vec<Range<i64>>> {
    let whole = Overlap::of(source.sharding(), source.coordinates(), &Region::whole(source.shape()));
    let own = whole.first().iter().zip(source.local_shape()).map(|(&first, &len)| first as i64..(first + len) as i64);
    let inside = own.zip(region.ranges()).enumerate().map(|(dim, (own, all))| {
        // Beyond the period, an index means another element.
        let end = region.period(dim).map_or(all.end, |period| all.end.min(period));
        own.start.max(all.start)..own.end.min(end)
    });
    let inside: Vec<_> = inside.collect();
    let is_one_box = whole.len() > 0 && whole.is_box() && !region.has_blocks();
    (is_one_box && inside.iter().all(|range| range.start < range.end)).then_some(inside)
}
