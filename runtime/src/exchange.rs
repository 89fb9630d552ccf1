//! Exchanges: the pieces of an array that one rank keeps, sends, receives and reads in place.
//!
//! Fetches into a tile, write-backs out of one and moves between two arrays are all exchanges. Both ends of a message work out the same
//! [piece](Subarray), so that no message carries indices; each rank works out its own part of an exchange. Nothing here communicates.

use crate::comm::Piece;
use crate::layout::{Mesh, Neighbours, Sharding, Stencil};
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Grid, Group, Region, Result, Shards};
use bytemuck::cast_slice;
use std::rc::Rc;

/// A piece, and the rank at the other end of its transfer.
pub(crate) type WithRank = (usize, Rc<Subarray>);

/// One rank's part in an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    /// This rank's number in the communicator that carries the messages.
    pub(crate) me: usize,
    /// The pieces that it needs and owns itself.
    pub(crate) keep: Vec<Rc<Subarray>>,
    /// The pieces that it sends and those that it receives, at most one each way for each rank number of that communicator, in ascending
    /// order.
    pub(crate) sends: Vec<WithRank>,
    pub(crate) receives: Vec<WithRank>,
    /// The pieces that it reads in place, by their owners' ranks in the world.
    pub(crate) seen: Vec<WithRank>,
}

impl Exchange {
    /// Each rank of the grid gets the region that `region_of` returns for its coordinates, this one `region`, from owners in `reach` of
    /// their readers.
    pub(crate) fn fetch<T: Element>(
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: Shards<'_, T>,
        region: &Region,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Self {
        let (sharding, mine) = (source.sharding(), source.coordinates());
        let own = Subarray::read(sharding, mine, mine, region);
        let send = |reader: &[usize], indices: &[i64]| Subarray::read(sharding, mine, reader, &region_of(indices));
        let mut sends = Vec::new();
        if !source.are_everywhere() {
            sends = with_others(grid, &reach.mirrored(), send);
            sends.retain(|(reader, _)| !source.is_seen_by(*reader));
        }
        let mut gets = Vec::new();
        if own.len() < region.distinct() {
            gets = with_others(grid, reach, |owner, _| Subarray::read(sharding, owner, mine, region));
        }
        let found = own.len() + total(&gets);
        if reach.stencil != Stencil::Star {
            all_found(found, region, sharding);
        }
        let (seen, receives) = gets.into_iter().partition(|(owner, _)| source.sees(*owner));
        Self { me: grid.world().rank(), keep: vec![Rc::new(own)], sends, receives, seen }
    }

    /// All members of a group get a region; `parts` are the parts that they own.
    pub(crate) fn gather(group: &Group, parts: Vec<Subarray>) -> Self {
        let me = group.rank();
        let (mut keep, mut sends, mut receives) = (Vec::new(), Vec::new(), Vec::new());
        for (member, part) in parts.into_iter().enumerate().filter(|(_, part)| part.len() > 0) {
            let part = Rc::new(part);
            if member == me {
                sends = (0..group.size()).filter(|&to| to != me).map(|to| (to, Rc::clone(&part))).collect();
                keep.push(part);
            } else {
                receives.push((member, part));
            }
        }
        Self { me, keep, sends, receives, seen: Vec::new() }
    }

    /// As [`fetch`](Self::fetch), in the other direction: each rank of the grid sends its region to the owners in reach, to each of them if
    /// there are several.
    pub(crate) fn write_back<T: Element>(
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &DistArray<T>,
        region: &Region,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Self {
        let (sharding, mine) = (target.sharding(), target.coordinates());
        // Of partial sums, each rank's own term.
        let of_term = |other: &[usize], owner: &[usize], region: &Region| {
            let same = sharding.partial().iter().all(|&axis| other[axis] == mine[axis]);
            if same { Subarray::of(sharding, owner, region) } else { Subarray::default() }
        };
        let sends = with_others(grid, reach, |owner, _| of_term(owner, owner, region));
        let receives =
            with_others(grid, &reach.mirrored(), |writer, indices| of_term(writer, mine, &region_of(indices)));
        let own = Subarray::of(sharding, mine, region);
        // Each of several owners of an element gets its own.
        all_found((total(&sends) + own.len()).min(region.distinct()), region, sharding);
        Self { me: grid.world().rank(), keep: vec![Rc::new(own)], sends, receives, seen: Vec::new() }
    }

    /// Each rank of the grid sends its region to one owner: this one sends `region` to the world's rank `to`, and receives the region in
    /// `from`.
    pub(crate) fn write_back_to<T: Element>(
        grid: &Grid<'_>,
        region: &Region,
        to: usize,
        from: Option<(usize, Region)>,
        target: &DistArray<T>,
    ) -> Self {
        let me = grid.world().rank();
        let part = || Rc::new(owned(target, &grid.mesh().coordinates(to), region));
        let (mut keep, mut sends) = (Vec::new(), Vec::new());
        match region.is_empty() {
            true => {}
            false if to == me => keep.push(part()),
            false => sends.push((to, part())),
        }
        let received = from.filter(|(from, region)| *from != me && !region.is_empty());
        let receives = received.map(|(from, region)| (from, Rc::new(owned(target, target.coordinates(), &region))));
        Self { me, keep, sends, receives: receives.into_iter().collect(), seen: Vec::new() }
    }

    /// Each member of a group gets its part of a region, listed in `parts`, from all of them, this one `own`: terms of a sum.
    pub(crate) fn terms(group: &Group, own: Rc<Subarray>, parts: Vec<Subarray>) -> Self {
        let me = group.rank();
        let sends = parts.into_iter().enumerate().filter(|(to, part)| *to != me && part.len() > 0);
        let receives = (0..group.size()).filter(|&from| from != me && own.len() > 0);
        Self {
            me,
            sends: sends.map(|(to, part)| (to, Rc::new(part))).collect(),
            receives: receives.map(|from| (from, Rc::clone(&own))).collect(),
            keep: vec![own],
            seen: Vec::new(),
        }
    }

    /// Each rank `a` of a mesh, in which this one is `me`, sends `between(a, b)` to each rank `b` in `reach`.
    pub(crate) fn between(
        mesh: &Mesh,
        me: usize,
        reach: &Neighbours,
        between: impl Fn(usize, usize) -> Subarray,
    ) -> Self {
        let mut in_reach: Vec<_> = mesh.in_reach(&mesh.coordinates(me), reach).map(|at| mesh.rank(&at)).collect();
        in_reach.retain(|&rank| rank != me);
        in_reach.sort_unstable();
        // Along each axis the reach is the rank's own coordinate or all coordinates, so it also contains the ranks that this one sends to.
        let pieces = |between: &dyn Fn(usize) -> Subarray| -> Vec<_> {
            let pieces = in_reach.iter().map(|&rank| (rank, Rc::new(between(rank))));
            pieces.filter(|(_, piece)| piece.len() > 0).collect()
        };
        Self {
            me,
            keep: vec![Rc::new(between(me, me))],
            sends: pieces(&|rank| between(me, rank)),
            receives: pieces(&|rank| between(rank, me)),
            seen: Vec::new(),
        }
    }

    /// Renumbers the ranks as in another communicator.
    pub(crate) fn numbered(mut self, number: impl Fn(usize) -> usize) -> Self {
        self.sends.iter_mut().chain(&mut self.receives).for_each(|(rank, _)| *rank = number(*rank));
        self.me = number(self.me);
        self
    }

    /// Returns the piece that this rank keeps, in exchanges with at most one, unless it is empty.
    pub(crate) fn kept(&self) -> Option<&Subarray> {
        self.keep.first().map(|kept| &**kept).filter(|kept| kept.len() > 0)
    }

    /// Copies the pieces that this rank keeps and sees, and the messages that it has received, if they are given, to their places in
    /// `region`, a buffer of the whole region.
    pub(crate) fn put_together<T: Element>(
        &self,
        source: Shards<'_, T>,
        received: &[Piece],
        region: &mut [T],
    ) -> Result<()> {
        for part in &self.keep {
            part.copy(Place::Block, source.block(), Place::Region, region);
        }
        for (rank, part) in &self.seen {
            part.copy(Place::Block, source.block_of(*rank)?, Place::Region, region);
        }
        for ((_, part), message) in self.receives.iter().zip(received) {
            part.copy(Place::Packed, cast_slice(message), Place::Region, region);
        }
        Ok(())
    }
}

/// The place of `region` in the shard of the rank at `owner`, which owns all of it.
pub(crate) fn owned<T>(array: &DistArray<T>, owner: &[usize], region: &Region) -> Subarray {
    let own = Subarray::of(array.sharding(), owner, region);
    all_found(own.len(), region, array.sharding());
    own
}

/// The part of `region` that each member of a group owns, as `part` returns it for the member's coordinates; together they are all of its
/// elements.
pub(crate) fn parts_of(
    group: &Group,
    sharding: &Sharding,
    region: &Region,
    part: impl Fn(&[usize]) -> Subarray,
) -> Vec<Subarray> {
    let parts: Vec<_> = (0..group.size()).map(|member| part(&group.coordinates(member))).collect();
    all_found(parts.iter().map(Subarray::len).sum(), region, sharding);
    parts
}

/// Checks that all elements of a region have been found where their owners are said to be.
pub(crate) fn all_found(found: usize, region: &Region, sharding: &Sharding) {
    let all = region.distinct();
    assert!(
        found == all,
        "{found} of the {all} elements of {region} have an owner in reach, in an array sharded {sharding}; this is a bug in polyshard"
    );
}

/// Returns the number of elements of all pieces.
pub(crate) fn total(pieces: &[WithRank]) -> usize {
    pieces.iter().map(|(_, piece)| piece.len()).sum()
}

/// The other ranks in reach that share elements with this one, each with the piece that `part` returns for its coordinates and indices.
fn with_others(grid: &Grid<'_>, reach: &Neighbours, part: impl Fn(&[usize], &[i64]) -> Subarray) -> Vec<WithRank> {
    let parts = grid.others(reach).map(|(rank, coordinates, indices)| (rank, part(&coordinates, &indices)));
    parts.filter(|(_, part)| part.len() > 0).map(|(rank, part)| (rank, Rc::new(part))).collect()
}
