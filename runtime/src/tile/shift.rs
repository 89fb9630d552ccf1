//! Tiles that travel round a group: each step a rank hands on what it holds.

use super::{Held, Place, Tile, one_box, owned, room};
use crate::{DistArray, Element, Group, Region, Result, memory};
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
            let same = match &self.held {
                Held::Nothing => region.is_empty(),
                Held::Shard(held) | Held::Buffer(held) => held == region || held.is_empty() && region.is_empty(),
            };
            assert!(
                same,
                "a shift by {by} in a group of {size} changes a tile to {region}; this is a bug of polyshard"
            );
            return Ok(());
        }
        memory::grow(&mut self.relay, self.buffer.len(), "the second buffer of a tile")?;
        let data: &[T] = match &self.held {
            Held::Nothing => &[],
            Held::Buffer(held) => room(&mut self.buffer, held),
            Held::Shard(held) => {
                let own = owned(source, source.coordinates(), held);
                match own.contiguous(Place::Block) {
                    Some(range) => &source.block()[range],
                    None => {
                        let buffer = room(&mut self.buffer, held);
                        own.copy(Place::Block, source.block(), Place::Packed, buffer);
                        buffer
                    }
                }
            }
        };
        let sends = [(to as usize, cast_slice(data))];
        let into = room(&mut self.relay, region);
        let receive = !into.is_empty();
        let mut receives = [(from as usize, cast_slice_mut(into))];
        group.comm().exchange(&sends[..usize::from(!data.is_empty())], &mut receives[..usize::from(receive)])?;
        swap(&mut self.buffer, &mut self.relay);
        self.held = Held::Buffer(region.clone());
        Ok(())
    }
}
