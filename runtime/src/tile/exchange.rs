//! Tiles that pairs of ranks hand one another: permutations, and exchanges of any pattern.

use super::{Held, InPlace, Tile, one_box, owned, with_others};
use crate::layout::{Neighbours, Stencil};
use crate::subarray::mail::{self, Ends, Turns};
use crate::subarray::{Place, Subarray};
use crate::view::Ranges;
use crate::{DistArray, Element, Grid, Region, Result, Shards};
use bytemuck::{cast_slice, cast_slice_mut};

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
    /// If a region is not the sender's own: a bug in polyshard.
    pub fn permute<'a>(
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
            Some(near) => self.hold_near(source, region, near),
            None => {
                self.held = Held::Buffer(region.clone());
                Ok(())
            }
        }
    }

    /// Gives each rank of the grid the region that `region_of` says for its coordinates, whoever owns it.
    ///
    /// Each element comes from the owner that [`Sharding::owner`](crate::layout::Sharding::owner) names for the
    /// reader. Both sides work out the same messages, one per pair of ranks (MPI 3.1, section 3.7), and a rank
    /// sends what others read of its shard, nothing more. A region of this rank's own shard is held, or copied
    /// if it is scattered there. `reach` says where owners are, seen from their readers: no other ranks are
    /// looked at, so that working out the messages takes time in proportion to the number of ranks in reach. What ranks own that
    /// differ from the reader along several axes does not come if the reach is a star: it must not be read.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a region leaves the array, or an owner is out of reach that is no star: a bug in polyshard.
    pub fn exchange<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        self.fetch(grid, reach, source.into(), region_of, false)
    }

    /// As [`exchange`](Self::exchange), but what this rank owns of the region is not copied: a nest reads it where it
    /// lies. Other leaves cannot.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// As for [`exchange`](Self::exchange).
    pub fn halo<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        self.fetch(grid, reach, source.into(), region_of, true)
    }

    /// As [`exchange`](Self::exchange), or, if the tile goes `around` the shard, as [`halo`](Self::halo).
    fn fetch(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: Shards<'_, T>,
        region_of: impl Fn(&[i64]) -> Region,
        around: bool,
    ) -> Result<()> {
        let region = region_of(grid.coords());
        let pieces = self.pieces_of(grid, reach, source, &region, region_of, around);
        source.count(pieces.in_place());
        let done = self.put_together(grid, source, &region, &pieces);
        self.pieces = Some(pieces);
        done
    }

    /// What ranks in reach hand one another, which is known if it was the same the last time.
    pub(super) fn pieces_of(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: Shards<'_, T>,
        region: &Region,
        region_of: impl Fn(&[i64]) -> Region,
        around: bool,
    ) -> Pieces {
        let known = self.pieces.take().filter(|known| known.are_those_of(region, source, self.is_fixed));
        known.unwrap_or_else(|| {
            let pieces = Pieces::new(grid, reach, source, region, region_of);
            if around { pieces.around(source) } else { pieces }
        })
    }

    /// Gets the pieces of `region` that others own, by messages or from where these have them, and holds it all.
    fn put_together(&mut self, grid: &Grid<'_>, source: Shards<'_, T>, region: &Region, pieces: &Pieces) -> Result<()> {
        let Pieces { sends, receives, .. } = pieces;
        // What is all the rank's own, or another's, may be held without a buffer.
        let buffer = if receives.is_empty() { &mut [] } else { super::room(&mut self.buffer, region) };
        let ends = Ends {
            element: size_of::<T>(),
            source: (Place::Block, cast_slice(source.block())),
            target: (Place::Region, cast_slice_mut(buffer)),
        };
        let staging = [&mut self.outgoing, &mut self.incoming];
        mail::exchange(grid.world().comm(), Turns::Together, sends, receives, ends, staging)?;
        self.hold_pieces(source, region, pieces)
    }

    /// Holds `region`, of which what came by messages is in the buffer.
    pub(super) fn hold_pieces(&mut self, source: Shards<'_, T>, region: &Region, pieces: &Pieces) -> Result<()> {
        let Pieces { local, seen, .. } = pieces;
        if pieces.is_own() {
            let near = self.own(source, region);
            return self.hold_near(source, region, near);
        }
        if let ([(rank, part)], false) = (&seen[..], region.wraps() || region.has_blocks())
            && part.len() == region.distinct()
            && part.is_box()
        {
            source.block_of(*rank)?;
            let owner = source.sharding().mesh().coordinates(*rank);
            self.held = Held::InPlace(region.clone(), InPlace::new(*rank, part, source.sharding(), &owner));
            return Ok(());
        }
        let buffer = super::room(&mut self.buffer, region);
        for (rank, part) in seen {
            part.copy(Place::Block, source.block_of(*rank)?, Place::Region, buffer);
        }
        for part in local {
            part.copy(Place::Block, source.block(), Place::Region, buffer);
        }
        self.held = pieces.held(region);
        Ok(())
    }
}

/// What ranks in reach hand one another of an array, each getting a region of it.
#[derive(Debug)]
pub(super) struct Pieces {
    /// This rank's region, and the elements that it owns of it.
    region: Region,
    own: usize,
    /// What is copied out of its shard; all that it owns, but for the interior.
    pub(super) local: Vec<Subarray>,
    /// The indices that are read where the shard has them.
    interior: Option<Ranges>,
    /// What others get of its shard, and what it gets of theirs, by messages.
    pub(super) sends: Vec<(usize, Subarray)>,
    pub(super) receives: Vec<(usize, Subarray)>,
    /// What it reads where others have it.
    pub(super) seen: Vec<(usize, Subarray)>,
    /// Whether all ranks saw all shards.
    are_everywhere: bool,
}

impl Pieces {
    pub(super) fn new<T: Element>(
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: Shards<'_, T>,
        region: &Region,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let local = Subarray::read(sharding, mine, mine, region);
        let are_everywhere = source.are_everywhere();
        let send = |reader: &[usize], indices: &[i64]| Subarray::read(sharding, mine, reader, &region_of(indices));
        let mut sends = Vec::new();
        if !are_everywhere {
            sends = with_others(grid, &reach.mirrored(), send);
            sends.retain(|(reader, _)| !source.is_seen_by(*reader));
        }
        let mut gets = Vec::new();
        if local.len() < region.distinct() {
            gets = with_others(grid, reach, |owner, _| Subarray::read(sharding, owner, mine, region));
        }
        let remote = mail::total(&gets);
        assert!(
            local.len() + remote == region.distinct() || reach.stencil == Stencil::Star,
            "{} of the {} elements of {region} have an owner in reach, in an array sharded {sharding}; this is a bug of \
             polyshard",
            local.len() + remote,
            region.distinct()
        );
        let (seen, receives) = gets.into_iter().partition(|(owner, _)| source.sees(*owner));
        let (region, own, local) = (region.clone(), local.len(), vec![local]);
        Self { region, own, local, interior: None, sends, receives, seen, are_everywhere }
    }

    /// The same, but what this rank owns is read where its shard has it, as far as it is one box of the array.
    fn around<T: Element>(self, source: Shards<'_, T>) -> Self {
        let Some(interior) = interior(source.array(), &self.region) else { return self };
        // What is at the other side of the end is copied, even if this rank owns it.
        let positions = interior.iter().zip(self.region.origin());
        let positions = positions.map(|(own, start)| (own.start - start) as usize..(own.end - start) as usize);
        let positions: Vec<_> = positions.collect();
        let local = self.local.iter().flat_map(|local| local.around(&positions)).collect();
        Self { local, interior: Some(interior), ..self }
    }

    /// What a tile holds whose buffer has what is not read where this rank's shard has it.
    pub(super) fn held(&self, region: &Region) -> Held {
        match &self.interior {
            Some(interior) => Held::Around(region.clone(), interior.clone()),
            None => Held::Buffer(region.clone()),
        }
    }

    /// Whether the region is this rank's own, and one box of its array or more.
    pub(super) fn is_own(&self) -> bool {
        self.own == self.region.distinct() && !self.region.wraps()
    }

    /// Whether they are worked out for this region. What others get by messages is known to be the same only if the regions of
    /// all ranks are.
    fn are_those_of<T: Element>(&self, region: &Region, source: Shards<'_, T>, is_fixed: bool) -> bool {
        self.region == *region
            && self.are_everywhere == source.are_everywhere()
            && (self.are_everywhere || is_fixed && !source.are_shared())
    }

    /// The elements that are read in place.
    pub(super) fn in_place(&self) -> usize {
        mail::total(&self.seen)
    }
}

/// The box of this rank's block that is inside the region, if block and region are boxes of the array and meet.
fn interior<T: Element>(source: &DistArray<T>, region: &Region) -> Option<Ranges> {
    let whole = Subarray::of(source.sharding(), source.coordinates(), &Region::whole(source.shape()));
    let own = whole.region().filter(|own| !own.is_empty() && !region.has_blocks())?;
    let inside = (0..region.ndim()).map(|dim| {
        let (own, all) = (own.range(dim), region.range(dim));
        // Beyond the period, an index means another element.
        let end = region.period(dim).map_or(all.end, |period| all.end.min(period));
        Some(own.start.max(all.start)..own.end.min(end)).filter(|range| range.start < range.end)
    });
    inside.collect()
}
