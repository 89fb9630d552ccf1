//! Tiles that travel round a group: each step a rank hands on what it holds.

use super::{Held, Tile, one_box, room};
use crate::{DistArray, Element, Grid, Group, Region, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use std::mem::swap;

impl<T: Element> Tile<T> {
    /// Receives `region` from the member `by` further on, round the group, and sends what the tile holds to
    /// the member `by` before (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// by 1     member 0: a    member 1: b    member 2: c
    /// after    member 0: b    member 1: c    member 2: a
    /// ```
    ///
    /// What lies together in the shard is sent from there; the shard is never written, as two buffers are used
    /// in turn. Sizes may differ between members, as tiles may be short or empty; nothing is sent of those.
    ///
    /// # Errors
    /// If another rank failed, or its tile has another size than `region`.
    ///
    /// # Panics
    /// If `by` leads back to this rank and `region` is not what it holds: a bug of polyshard.
    pub fn shift(&mut self, group: &Group, by: i64, source: &DistArray<T>, region: &Region) -> Result<()> {
        one_box(region);
        let (me, size) = (group.rank() as i64, group.size() as i64);
        let from = (me + by).rem_euclid(size);
        let to = (me - by).rem_euclid(size);
        if from == me {
            self.holds(region);
            return Ok(());
        }
        self.relay.grow(self.buffer.len(), "the second buffer of a tile")?;
        let data = self.held.data(&mut self.buffer, source);
        let sends = [(to as usize, cast_slice(data))];
        let into = room(&mut self.relay, region);
        let receive = !into.is_empty();
        let mut receives = [(from as usize, cast_slice_mut(into))];
        group.comm().exchange(&sends[..usize::from(!data.is_empty())], &mut receives[..usize::from(receive)])?;
        swap(&mut self.buffer, &mut self.relay);
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
    pub fn permute_held(
        &mut self,
        grid: &Grid<'_>,
        from: usize,
        to: Option<(usize, Region)>,
        source: &DistArray<T>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let me = grid.world().rank();
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
        let data = self.held.data(&mut self.buffer, source);
        let sends: Vec<_> = to.iter().map(|(to, _)| (*to, cast_slice(data))).collect();
        let mut receive = [(from, cast_slice_mut(room(&mut self.relay, region)))];
        grid.world().comm().exchange(&sends, &mut receive[..usize::from(receives)])?;
        if receives {
            swap(&mut self.buffer, &mut self.relay);
            self.held = Held::Buffer(region.clone());
        } else if region.is_empty() {
            self.held = Held::Nothing;
        }
        Ok(())
    }
}
