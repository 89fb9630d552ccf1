//! Tiles exchanged between pairs of ranks: permutations, and exchanges of any pattern.

use super::fetch::Fetch;
use super::{Held, Tile, one_box};
use crate::exchange::{Exchange, owned, total};
use crate::layout::Neighbours;
use crate::subarray::Place;
use crate::subarray::mail::{self, Ends, Turns};
use crate::{Element, Grid, Region, Result, Shards};
use bytemuck::{cast_slice, cast_slice_mut};
use std::rc::Rc;

impl<T: Element> Tile<T> {
    /// Receives `region` from the world's rank `from`, which owns all of it, and sends the region given in `to` from this rank's shard to
    /// the rank given there (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// before   rank 0: a    rank 1: b    rank 2: c
    /// after    rank 0: c    rank 1: a    rank 2: b        (from = rank - 1, to = rank + 1)
    /// ```
    ///
    /// Nothing is received if `region` is empty, and nothing is sent if `to` is `None` or its region is empty. A region of this rank's own
    /// shard is held, or copied if it is scattered there.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a region is not the sender's own: a bug in polyshard.
    pub(crate) fn permute<'a>(
        &mut self,
        grid: &Grid<'_>,
        from: usize,
        to: Option<(usize, Region)>,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        let source = source.into();
        let me = grid.world().rank();
        one_box(region);
        let sent = |to: usize, region: &Region| to != me && !region.is_empty() && !source.is_seen_by(to);
        let part = to.filter(|(to, region)| sent(*to, region));
        let part = part.map(|(to, region)| (to, owned(source.array(), source.coordinates(), &region)));
        let near = self.near_one(source, from, region);
        let receive = near.is_none().then(|| (from, super::room(&mut self.buffer, region)));
        let send = match &part {
            Some((to, part)) => Some((*to, part.packed(Place::Block, source.block(), &mut self.outgoing)?)),
            None => None,
        };
        mail::pass_on(grid.world().comm(), send, receive)?;
        match near {
            Some(near) => self.hold_fetched(source, region, &near, &[]),
            None => {
                self.held = Held::Buffer(region.clone());
                Ok(())
            }
        }
    }

    /// Fetches on each rank of the grid the region that `region_of` returns for its coordinates, from any owners.
    ///
    /// Each element is sent by the owner that [`Sharding::owner`](crate::layout::Sharding::owner) names for the reader. Both sides work out
    /// the same messages, one per pair of ranks (MPI 3.1, section 3.7), and a rank sends the elements of its shard that others read, and
    /// nothing else. A region of this rank's own shard is held, or copied if it is scattered there. `reach` is where owners are, relative
    /// to their readers: no other ranks are considered, so that working out the messages takes time in proportion to the number of ranks in
    /// reach. If the reach is a star, elements owned by ranks that differ from the reader along several axes are not sent: they must not be
    /// read.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a region exceeds the array, or an owner is out of a reach that is not a star: a bug in polyshard.
    pub(crate) fn exchange<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        self.fetch(grid, reach, source.into(), region_of, false)
    }

    /// As [`exchange`](Self::exchange), but the part of the region that this rank owns is not copied: a nest reads it in place. Other
    /// leaves cannot.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// As for [`exchange`](Self::exchange).
    pub(crate) fn halo<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        self.fetch(grid, reach, source.into(), region_of, true)
    }

    /// As [`exchange`](Self::exchange), or as [`halo`](Self::halo) if `around`.
    fn fetch(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: Shards<'_, T>,
        region_of: impl Fn(&[i64]) -> Region,
        around: bool,
    ) -> Result<()> {
        let region = region_of(grid.coords());
        let fetch = self.exchanged(grid, reach, source, &region, region_of, around);
        source.count(total(&fetch.exchange.seen));
        // A region that is in one shard as a whole is held without a buffer.
        let buffer = if fetch.exchange.receives.is_empty() { &mut [] } else { super::room(&mut self.buffer, &region) };
        let ends = Ends {
            element: size_of::<T>(),
            source: (Place::Block, cast_slice(source.block())),
            target: (Place::Region, cast_slice_mut(buffer)),
        };
        let staging = [&mut self.outgoing, &mut self.incoming];
        mail::exchange(grid.world().comm(), Turns::Together, &fetch.exchange, ends, staging)?;
        self.hold_fetched(source, &region, &fetch, &[])
    }

    /// The route by which ranks in reach exchange pieces, reused if it was the same the last time. The messages to others are known to be
    /// the same only if the regions of all ranks are.
    pub(super) fn exchanged(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: Shards<'_, T>,
        region: &Region,
        region_of: impl Fn(&[i64]) -> Region,
        around: bool,
    ) -> Rc<Fetch> {
        let are_everywhere = source.are_everywhere();
        let is_fixed = are_everywhere || self.is_fixed && !source.are_shared();
        let known = self.exchanged.take();
        let known = known.filter(|(known, seen, _)| is_fixed && known == region && *seen == are_everywhere);
        let (.., fetch) = self.exchanged.insert(known.unwrap_or_else(|| {
            let exchange = Exchange::fetch(grid, reach, source, region, region_of);
            (region.clone(), are_everywhere, Rc::new(Fetch::new(source, region, exchange, around)))
        }));
        Rc::clone(fetch)
    }
}
