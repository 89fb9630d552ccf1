//! Tiles that are shifted cyclically through a group: at each step a rank sends on the region that it holds.

use super::{Held, Tile, cyclic_neighbour, one_box, room};
use crate::comm::Communicator;
use crate::subarray::mail;
use crate::{Element, Grid, Group, Region, Result, Shards};
use std::mem::swap;

impl<T: Element> Tile<T> {
    /// Receives `region` from the member `by` places after this one, cyclically through the group, and sends the region that the tile holds
    /// to the member `by` places before (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// by 1     member 0: a    member 1: b    member 2: c
    /// after    member 0: b    member 1: c    member 2: a
    /// ```
    ///
    /// A region that is contiguous in the shard is sent from there; the shard is never written, and after the first shift two buffers
    /// alternate. Sizes may differ between members, as tiles may be short or empty; empty tiles are not sent.
    ///
    /// # Errors
    /// If another rank failed, or its tile does not have the size of `region`.
    ///
    /// # Panics
    /// If `by` is a multiple of the group's size and `region` is not the region held: a bug in polyshard.
    pub(crate) fn shift<'a>(
        &mut self,
        group: &Group,
        by: i64,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let source = source.into();
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        if let Some(near) = self.anywhere(source, region, from != group.rank()) {
            return self.hold_fetched(source, region, &near, &[]);
        }
        if from == group.rank() {
            self.holds(region);
            return Ok(());
        }
        self.hand_over(group.comm(), Some(to), Some(from), source, region)
    }

    /// Receives `region` from the world's rank `from`, whose tile holds it, and sends the region that this tile holds to the rank in `to`,
    /// which needs it (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// held     rank 0: a    rank 1: b    rank 2: c
    /// after    rank 0: c    rank 1: a    rank 2: b        (from = rank - 1, to = rank + 1)
    /// ```
    ///
    /// As [`permute`](Self::permute), but between tiles, whichever ranks own the regions; two buffers alternate.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a tile does not hold the region that it is to send: a bug in polyshard.
    pub(crate) fn permute_held<'a>(
        &mut self,
        grid: &Grid<'_>,
        from: usize,
        to: Option<(usize, Region)>,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let source = source.into();
        let me = grid.world().rank();
        if let Some(near) = self.anywhere(source, region, from != me) {
            return self.hold_fetched(source, region, &near, &[]);
        }
        let to = to.filter(|(to, region)| *to != me && !region.is_empty());
        let handed_on = to.iter().map(|(_, region)| region).chain((from == me).then_some(region));
        handed_on.for_each(|region| self.holds(region));
        let from = (from != me).then_some(from);
        self.hand_over(grid.world().comm(), to.map(|(to, _)| to), from, source, region)
    }

    /// Sends the tile's region to the rank `to` and receives `region` from the rank `from`, where they are given; empty regions are not
    /// sent.
    fn hand_over(
        &mut self,
        comm: &dyn Communicator,
        to: Option<usize>,
        from: Option<usize>,
        source: Shards<'_, T>,
        region: &Region,
    ) -> Result<()> {
        let from = from.filter(|_| !region.is_empty());
        let in_shard = if to.is_some() { self.held.in_shard(source)? } else { Some(&[][..]) };
        // A send from a shard leaves the buffer free.
        if let Some(data) = in_shard {
            let into = from.map(|from| (from, room(&mut self.buffer, region)));
            mail::pass_on(comm, to.map(|to| (to, data)), into)?;
        } else {
            self.relay.grow(self.buffer.len(), "the second buffer of a tile")?;
            let data = self.held.data(&mut self.buffer, source)?;
            let into = from.map(|from| (from, room(&mut self.relay, region)));
            mail::pass_on(comm, to.map(|to| (to, data)), into)?;
            if from.is_some() {
                swap(&mut self.buffer, &mut self.relay);
            }
        }
        if from.is_some() {
            self.held = Held::Buffer(region.clone());
        } else if region.is_empty() {
            self.held = Held::Nothing;
        }
        Ok(())
    }
}
