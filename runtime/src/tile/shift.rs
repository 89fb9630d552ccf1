//! Tiles that are shifted cyclically through a group: at each step a rank hands on what it holds.

use super::{Held, Tile, cyclic_neighbour, one_box, room};
use crate::subarray::mail;
use crate::{Element, Grid, Group, Region, Result, Shards};
use std::mem::swap;

impl<T: Element> Tile<T> {
    /// Receives `region` from the member `by` places after this one, cyclically through the group, and sends what the tile holds to
    /// the member `by` places before (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// by 1     member 0: a    member 1: b    member 2: c
    /// after    member 0: b    member 1: c    member 2: a
    /// ```
    ///
    /// What lies together in the shard is sent from there; the shard is never written, and from then on two buffers are used
    /// in turn. Sizes may differ between members, as tiles may be short or empty; nothing is sent of those.
    ///
    /// # Errors
    /// If another rank failed, or its tile has another size than `region`.
    ///
    /// # Panics
    /// If `by` leads back to this rank and `region` is not what it holds: a bug of polyshard.
    pub fn shift<'a>(
        &mut self,
        group: &Group,
        by: i64,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let source = source.into();
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        if source.are_everywhere() {
            return self.read_anywhere(source, region, from != group.rank());
        }
        if from == group.rank() {
            self.holds(region);
            return Ok(());
        }
        // What is sent from a shard leaves the buffer free.
        if let Some(data) = self.held.in_shard(source)? {
            mail::pass_on(group.comm(), (to, data), (from, room(&mut self.buffer, region)))?;
        } else {
            self.relay.grow(self.buffer.len(), "the second buffer of a tile")?;
            let data = self.held.data(&mut self.buffer, source)?;
            mail::pass_on(group.comm(), (to, data), (from, room(&mut self.relay, region)))?;
            swap(&mut self.buffer, &mut self.relay);
        }
        self.held = Held::Buffer(region.clone());
        Ok(())
    }

    /// Receives `region` from the world's rank `from`, whose tile holds it, and sends what this tile holds to the rank
    /// of `to`, whose region that is (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// held     rank 0: a    rank 1: b    rank 2: c
    /// after    rank 0: c    rank 1: a    rank 2: b        (from = rank - 1, to = rank + 1)
    /// ```
    ///
    /// As [`permute`](Self::permute), but out of tiles, whoever owns what they hold; two buffers are used in turn.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a tile does not hold what it should hand on: a bug of polyshard.
    pub fn permute_held<'a>(
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
        if source.are_everywhere() {
            return self.read_anywhere(source, region, from != me);
        }
        let to = to.filter(|(to, region)| *to != me && !region.is_empty());
        let receives = from != me && !region.is_empty();
        if from == me {
            self.holds(region);
        }
        if to.is_none() && !receives {
            if region.is_empty() {
                self.held = Held::Nothing;
            }
            return Ok(());
        }
        self.relay.grow(self.buffer.len(), "the second buffer of a tile")?;
        if let Some((_, region)) = &to {
            self.holds(region);
        }
        let (to, data) = match &to {
            Some((to, _)) => (*to, self.held.data(&mut self.buffer, source)?),
            None => (me, &[][..]),
        };
        let into = if receives { room(&mut self.relay, region) } else { &mut [] };
        mail::pass_on(grid.world().comm(), (to, data), (from, into))?;
        if receives {
            swap(&mut self.buffer, &mut self.relay);
            self.held = Held::Buffer(region.clone());
        } else if region.is_empty() {
            self.held = Held::Nothing;
        }
        Ok(())
    }
}
