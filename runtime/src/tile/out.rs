//! Output tiles: buffers that a step writes, combined into the shards of the owners.

use super::pending::Leaving;
use super::sequence::Sequence;
use super::terms::{Fold, combine, combine_received, owned_by_this};
use super::under_way::Transfers;
use super::{Written, one_box, room};
use crate::comm::{Communicator, Order};
use crate::exchange::{Exchange, total};
use crate::layout::{Neighbours, Sharding};
use crate::memory::{Buffer, split_mut};
use crate::subarray::mail::{self, Ends, Turns};
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Grid, ReduceOp, Reduction, Region, Result, ViewMut};
use bytemuck::{cast_slice, cast_slice_mut};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::rc::Rc;

/// A buffer for the part of an output tensor that one step writes, dense and row-major.
///
/// It starts from the value that leaves others unchanged, -0.0 for sums, and is then combined into the owners' shards, so it does not
/// matter how often, by how many ranks or in how many steps an element is written: an element that no step writes keeps its value.
/// Contributions are combined in ascending order of the ranks that wrote them, the same on every run.
///
/// If a kernel does not write all of its output, the tile is combined only [`within`](Self::within) the elements that it writes.
pub(crate) struct OutTile<T> {
    pub(super) region: Region,
    pub(super) written: Option<Written>,
    /// The order in which the terms of a group are combined, and the ranks that combine them.
    pub(super) order: Order,
    pub(super) by_messages: bool,
    /// The reduction that adds up the sums of a group, if its steps are given.
    pub(super) reduction: Option<Reduction<T>>,
    is_fixed: bool,
    pub(super) buffer: Buffer<T>,
    /// The value that each element of the region stands for, if nothing has been written to it since the tile was reset.
    unset: Option<T>,
    pub(super) outgoing: Buffer<T>,
    pub(super) incoming: Buffer<T>,
    /// The parts of regions that this rank owns, in arrays of this sharding.
    owns: (Option<Sharding>, Sequence<Rc<Subarray>>),
    /// The part that it owns if only others get the sums: nothing.
    pub(super) nothing: Rc<Subarray>,
    /// The last exchange, its region, and the sharding of the array that it was combined into.
    exchanged: Option<(Sharding, Region, Rc<Exchange>)>,
    /// Buffers that hold no tile.
    pub(super) spare: Vec<Buffer<T>>,
    /// The tiles in flight to their owners, in the order in which they began.
    pub(super) leaving: VecDeque<Leaving<T>>,
    /// Their messages.
    pub(super) transfers: Transfers,
}

impl<T> fmt::Debug for OutTile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutTile").field("region", &self.region).finish_non_exhaustive()
    }
}

impl<T: Element> OutTile<T> {
    /// Returns a tile of the tensor `name` with room for a region of `elements` elements, and no region yet.
    ///
    /// # Errors
    /// If they do not fit in free memory.
    pub(crate) fn new(name: &str, elements: usize) -> Result<Self> {
        let buffer = Buffer::to_be_read(elements, format_args!("a tile of `{name}`"))?;
        Ok(Self {
            region: Region::empty(0),
            written: None,
            order: Order::Ranks,
            by_messages: false,
            reduction: None,
            is_fixed: false,
            buffer,
            unset: None,
            outgoing: Buffer::default(),
            incoming: Buffer::default(),
            owns: Default::default(),
            nothing: Rc::default(),
            exchanged: None,
            spare: Vec::new(),
            leaving: VecDeque::new(),
            transfers: Transfers::default(),
        })
    }

    /// Returns the tile, to be combined only into those elements of this rank's shard that are written.
    #[must_use]
    pub(crate) fn within(self, written: Written) -> Self {
        Self { written: Some(written), ..self }
    }

    /// Returns the tile, whose [`reduce`](Self::reduce), [`all_reduce`](Self::all_reduce) and [`reduce_scatter`](Self::reduce_scatter)
    /// leave the order of the terms to the communication library: faster where it knows the network, but the bits depend on the network,
    /// the length and the ranks.
    #[must_use]
    pub(crate) fn in_any_order(self) -> Self {
        Self { order: Order::Any, ..self }
    }

    /// Returns the tile, in whose [`reduce`](Self::reduce) and [`all_reduce`](Self::all_reduce) each member adds up a piece, and sends it
    /// on; without it, the members that need the sums receive all terms. The bits are the same.
    #[must_use]
    pub(crate) fn in_pieces(self) -> Self {
        Self { order: Order::RanksInPieces, ..self }
    }

    /// Returns the tile, whose [`all_reduce`](Self::all_reduce) takes the steps of `reduction`, which is for as many elements as the tile
    /// has room for and for the group's ranks; shorter regions take the same steps.
    #[must_use]
    pub(crate) fn reduced_by(self, reduction: Reduction<T>) -> Self {
        Self { reduction: Some(reduction), ..self }
    }

    /// Returns the tile, which has the same region each time on every rank: the messages of a [`write_back`](Self::write_back) are worked
    /// out once.
    #[must_use]
    pub(crate) fn fixed(self) -> Self {
        Self { is_fixed: true, ..self }
    }

    /// Sends sums as messages from now on, even if members could read each other's tiles.
    pub(crate) fn use_messages(&mut self) {
        self.by_messages = true;
    }

    /// Makes it the tile of `region`; each element stands for the value that `op` combines with any other without changing it: the
    /// identity, but -0.0 for sums. Moves no data.
    ///
    /// # Panics
    /// If the region does not fit the buffer, or wraps around the end of its array: a bug in polyshard.
    pub(crate) fn reset(&mut self, region: &Region, op: ReduceOp) {
        one_box(region);
        if self.buffer.len() < region.len() {
            // The last buffer is in flight.
            self.buffer = self.spare.pop().unwrap_or_default();
        }
        let _ = room(&mut self.buffer, region);
        self.unset = Some(op.neutral());
        self.region = region.clone();
    }

    /// Returns the elements, addressed by global index, for a leaf to combine its results into them.
    ///
    /// The leaf assigns each element of a tile that has just been reset a value, if only the identity.
    #[must_use]
    pub(crate) fn view_mut(&mut self) -> ViewMut<'_, T> {
        let region = &self.region;
        let data = &mut self.buffer[..region.len()];
        let view = ViewMut::at(data, region.origin(), region.strides()).in_blocks(region);
        match self.unset.take() {
            None => view,
            Some(value) => view.unset(value),
        }
    }

    /// The part of the region that this rank owns in `target`, as `find` returns it; `find` is called once, however often the region is
    /// combined.
    pub(super) fn own_part(
        &mut self,
        target: &DistArray<T>,
        find: impl FnOnce(&DistArray<T>, &Region) -> Subarray,
    ) -> Rc<Subarray> {
        if self.owns.0.as_ref() != Some(target.sharding()) {
            self.owns = (Some(target.sharding().clone()), Sequence::default());
        }
        let found = || Ok::<_, Infallible>(Rc::new(find(target, &self.region)));
        let Ok(own) = self.owns.1.get(&self.region, found);
        Rc::clone(own)
    }

    /// The elements, to be sent or combined; if nothing was written to the tile since [`reset`](Self::reset), each is the value that it
    /// stands for.
    pub(super) fn sums(&mut self) -> &mut [T] {
        let sums = &mut self.buffer[..self.region.len()];
        if let Some(value) = self.unset.take() {
            sums.fill(value);
        }
        sums
    }

    /// Combines the tile into this rank's own shard, where it may be scattered. Moves no data between ranks.
    ///
    /// # Panics
    /// If this rank does not own all of it: a bug in polyshard.
    pub(crate) fn combine_local(&mut self, target: &mut DistArray<T>, op: ReduceOp) {
        self.sums();
        let own = self.own_part(target, owned_by_this);
        combine(&own, &[(&self.buffer, Place::Region)], target, self.written.as_ref(), op);
    }

    /// Sends the tile to the world's rank `to`, which owns all of it, and combines the tile of the rank and
    /// region of `from` into this rank's shard (MPI 3.1, section 3.7).
    ///
    /// Nothing is sent if the tile is empty, and nothing is received if `from` is `None` or its region is empty.
    /// Stages the data that it receives.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a region is not the receiver's own: a bug in polyshard.
    pub(crate) fn permute_back(
        &mut self,
        grid: &Grid<'_>,
        to: usize,
        from: Option<(usize, Region)>,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let terms = Exchange::write_back_to(grid, &self.region, to, from, target);
        self.deliver(grid.world().comm(), &terms, Fold::Each, target, op)
    }

    /// Sends each owner its part of the tile, and combines the terms that others wrote for this rank's shard into it; `region_of` returns
    /// each rank's region from its coordinates (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// before   rank 0 wrote: a0 b0    rank 1 wrote: a1 b1
    /// after    owner of a: a op a0 op a1    owner of b: b op b0 op b1
    /// ```
    ///
    /// One message per pair of ranks; if an axis replicates the array, every owner gets its own. Stages the data that it receives. `reach`
    /// is where owners are, relative to writers: no other ranks are considered. Along axes of partial sums, the owners are those at this
    /// rank's coordinate.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If `region_of` returns a region for this rank that differs from the tile's, or an owner is out of reach: a bug in polyshard.
    pub(crate) fn write_back(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &mut DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
        op: ReduceOp,
    ) -> Result<()> {
        let terms = self.exchanged(grid, reach, target, region_of);
        self.deliver(grid.world().comm(), &terms, Fold::Each, target, op)
    }

    /// How ranks in reach exchange pieces of their tiles.
    pub(super) fn exchanged(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Rc<Exchange> {
        let region = region_of(grid.coords());
        assert!(
            region == self.region || region.is_empty() && self.region.is_empty(),
            "a tile of {} is written back as {region}; this is a bug in polyshard",
            self.region
        );
        let known = self
            .exchanged
            .take()
            .filter(|(sharding, known, _)| self.is_fixed && *known == region && sharding == target.sharding());
        let (.., terms) = self.exchanged.insert(known.unwrap_or_else(|| {
            let terms = Exchange::write_back(grid, reach, target, &region, region_of);
            (target.sharding().clone(), region, Rc::new(terms))
        }));
        Rc::clone(terms)
    }

    /// Sends and receives terms, then combines them.
    pub(super) fn deliver(
        &mut self,
        comm: &dyn Communicator,
        terms: &Exchange,
        fold: Fold,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        self.sums();
        self.incoming.grow(total(&terms.receives), "terms to combine into an array")?;
        let ends = Ends {
            element: size_of::<T>(),
            source: (Place::Region, cast_slice(&self.buffer)),
            target: (Place::Packed, cast_slice_mut(&mut self.incoming)),
        };
        // Packed terms are contiguous.
        let staging = [&mut self.outgoing, &mut Buffer::default()];
        mail::exchange(comm, Turns::Together, terms, ends, staging)?;
        let received = split_mut(&mut self.incoming, terms.receives.iter().map(|(_, part)| part.len()));
        let received = received.map(|packed| &*packed);
        combine_received(terms, fold, received, &self.buffer, target, self.written.as_ref(), op);
        Ok(())
    }
}
