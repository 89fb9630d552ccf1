//! Output tiles: what a step writes, combined into the shards of those who own it.

use super::sequence::Sequence;
use super::{Written, one_box, owned, room, with_others};
use crate::comm::{Communicator, Flight, Order, combine as combine_bytes, combine_terms};
use crate::layout::{Neighbours, Sharding};
use crate::memory::Buffer;
use crate::subarray::{Place, Row, Subarray, mail};
use crate::{DistArray, Element, Grid, ReduceOp, Reduction, Region, Result, ViewMut};
use bytemuck::{cast_slice, cast_slice_mut};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// Elements that are summed up at a time: few enough to stay in the nearest cache.
pub(super) const CHUNK: usize = 512;

/// A buffer for the part of an output tensor that one step writes, dense and row-major.
///
/// It starts from the value that leaves others unchanged, -0.0 for sums, and is then combined into the owners' shards, so
/// it does not matter how often, by how many ranks or in how many steps an element is written: what no step writes keeps
/// its value. Contributions meet in ascending order of the ranks that wrote them, the same on every run.
///
/// Where a kernel does not write all of its output, the tile is combined [`within`](Self::within) what it writes.
#[derive(Debug)]
pub struct OutTile<T> {
    pub(super) region: Region,
    pub(super) written: Option<Written>,
    /// In which order terms of a group are combined, and by whom.
    pub(super) order: Order,
    pub(super) by_messages: bool,
    /// How the sums of a group meet, if by steps that are given.
    pub(super) reduction: Option<Reduction<T>>,
    is_fixed: bool,
    pub(super) buffer: Buffer<T>,
    /// What each element of the region counts as, if nothing has been written there since the tile was reset.
    unset: Option<T>,
    pub(super) outgoing: Buffer<T>,
    pub(super) incoming: Buffer<T>,
    /// What this rank owns of regions, in arrays of this sharding.
    owns: (Option<Sharding>, Sequence<Rc<Subarray>>),
    /// What was exchanged last, and the sharding of the array that it was combined into.
    pieces: Option<(Sharding, Rc<Pieces>)>,
    /// Buffers in which no tile is.
    pub(super) spare: Vec<Buffer<T>>,
    /// What is on its way to its owners, what began first first.
    pub(super) leaving: VecDeque<Leaving<T>>,
    /// What members of a group hand on sums of pieces by.
    pub(super) lane: Lane,
}

/// What ranks in reach hand one another of what they have written.
#[derive(Debug)]
pub(super) struct Pieces {
    region: Region,
    pub(super) sends: Vec<(usize, Subarray)>,
    pub(super) receives: Vec<(usize, Subarray)>,
    /// What this rank owns itself of its region.
    local: Option<Subarray>,
}

/// A tile that is on its way to its owners.
#[derive(Debug)]
pub(super) struct Leaving<T> {
    /// This rank's own terms.
    pub(super) buffer: Buffer<T>,
    /// What this rank has posted for it.
    pub(super) flight: Option<Flight>,
    pub(super) end: End,
}

/// What becomes of a tile when what has been posted for it is there.
#[derive(Debug)]
pub(super) enum End {
    /// It has been combined, or is empty.
    Combined,
    /// Others' parts are combined one after the other, and between them those of this rank, which has this number.
    Pieces(Rc<Pieces>, usize),
    /// The members' terms of a part are summed up, of which this member of a group has this number.
    Sum { own: Rc<Subarray>, me: usize },
    /// This member sums up its piece of a tile of `len` elements, and passes the sums on to the root, or to all.
    Piece { own: Rc<Subarray>, len: usize, root: Option<usize>, op: ReduceOp },
    /// The sums of others' pieces come, and belong at these places of the tile.
    Sums { own: Rc<Subarray>, places: Vec<Range<usize>> },
}

/// A communicator of its own, if there has to be one.
#[derive(Default)]
pub(super) struct Lane(pub(super) Option<Box<dyn Communicator>>);

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lane").field(&self.0.is_some()).finish()
    }
}

impl<T: Element> OutTile<T> {
    /// Returns a tile of the tensor `name` with room for a region of `elements` elements, and no region yet.
    ///
    /// # Errors
    /// If they do not fit the memory that is free.
    pub fn new(name: &str, elements: usize) -> Result<Self> {
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
            pieces: None,
            spare: Vec::new(),
            leaving: VecDeque::new(),
            lane: Lane::default(),
        })
    }

    /// Returns the tile, from now on combined into no other elements of this rank's shard than those that are written.
    #[must_use]
    pub fn within(self, written: Written) -> Self {
        Self { written: Some(written), ..self }
    }

    /// Returns the tile, whose [`reduce`](Self::reduce), [`all_reduce`](Self::all_reduce) and
    /// [`reduce_scatter`](Self::reduce_scatter) from now on leave the order of the terms to the communication library:
    /// faster where it knows the network, but with bits that depend on it, on the length and on the ranks.
    ///
    /// ```
    /// use polyshard_runtime::OutTile;
    /// let tile = OutTile::<f32>::new("C", 64)?.in_any_order();
    /// # Ok::<(), polyshard_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn in_any_order(self) -> Self {
        Self { order: Order::Any, ..self }
    }

    /// Returns the tile, in whose [`reduce`](Self::reduce) and [`all_reduce`](Self::all_reduce) from now on each member sums up a
    /// piece, and hands it on; else those who want the sums get all terms. The bits are the same.
    ///
    /// ```
    /// let tile = polyshard_runtime::OutTile::<f64>::new("C", 1 << 20)?.in_pieces();
    /// # Ok::<(), polyshard_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn in_pieces(self) -> Self {
        Self { order: Order::RanksInPieces, ..self }
    }

    /// Returns the tile, whose [`all_reduce`](Self::all_reduce) from now on takes the steps of a reduction of as many elements as
    /// there is room for, in the group's ranks; those of shorter regions too.
    ///
    /// ```
    /// use polyshard_program::reduction::Procedure;
    /// use polyshard_runtime::{Error, OutTile, Reduction, spmd};
    /// let procedure = Procedure::in_order(vec![vec![0, 1]]).expect("each rank is in the group");
    /// spmd(2, |world| {
    ///     let tile = OutTile::<f32>::new("C", 64)?.reduced_by(Reduction::new(world, &procedure, 64)?);
    ///     Ok::<_, Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn reduced_by(self, reduction: Reduction<T>) -> Self {
        Self { reduction: Some(reduction), ..self }
    }

    /// Returns the tile, which from now on has the same region each time on every rank: what a
    /// [`write_back`](Self::write_back) sends to whom is worked out once.
    ///
    /// ```
    /// let tile = polyshard_runtime::OutTile::<f32>::new("C", 64)?.fixed();
    /// # Ok::<(), polyshard_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn fixed(self) -> Self {
        Self { is_fixed: true, ..self }
    }

    /// Returns the tile, whose sums from now on meet by messages, also where members could read each other's tiles.
    #[must_use]
    pub(crate) fn by_messages(self) -> Self {
        Self { by_messages: true, ..self }
    }

    /// Makes it the tile of `region`, each element of it the value that `op` combines with any other without changing
    /// it: the identity, but -0.0 for sums. Moves no data.
    ///
    /// # Panics
    /// If the region does not fit the buffer, or goes round the end of its array: a bug of polyshard.
    pub fn reset(&mut self, region: &Region, op: ReduceOp) {
        one_box(region);
        if self.buffer.len() < region.len() {
            // The last one is leaving.
            self.buffer = self.spare.pop().unwrap_or_default();
        }
        let _ = room(&mut self.buffer, region);
        self.unset = Some(op.neutral());
        self.region = region.clone();
    }

    /// Returns the elements, addressed by global index, for a leaf to combine its results into them.
    ///
    /// Of a tile that has just been reset, the leaf gives each element of it a value, be it the identity.
    #[must_use]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        let region = &self.region;
        let data = &mut self.buffer[..region.len()];
        let view = ViewMut::at(data, region.origin(), region.strides()).in_blocks(region);
        match self.unset.take() {
            None => view,
            Some(value) => view.unset(value),
        }
    }

    /// What this rank owns of the region in `target`, as `find` says, which is asked once for all times that the region is
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

    /// The elements, to be sent or combined: those that nothing was written to are what they count as.
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
    /// If this rank does not own all of it: a bug of polyshard.
    pub fn combine_local(&mut self, target: &mut DistArray<T>, op: ReduceOp) {
        self.sums();
        let own = self.own_part(target, owned_by_this);
        combine(&own, Place::Region, &self.buffer, target, self.written.as_ref(), op);
    }

    /// Sends the tile to the world's rank `to`, which owns all of it, and combines the tile of the rank and
    /// region of `from` into this rank's shard (MPI 3.1, section 3.7).
    ///
    /// Nothing is sent if the tile is empty, and nothing is received if `from` is none or its region is empty.
    /// Stages what it receives.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If a region is not the receiver's own: a bug of polyshard.
    pub fn permute_back(
        &mut self,
        grid: &Grid<'_>,
        to: usize,
        from: Option<(usize, Region)>,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let pieces = self.permuted(grid, to, from, target);
        self.deliver(grid, &pieces, target, op)
    }

    /// What ranks hand one another if each tile has one owner.
    pub(super) fn permuted(
        &self,
        grid: &Grid<'_>,
        to: usize,
        from: Option<(usize, Region)>,
        target: &DistArray<T>,
    ) -> Pieces {
        let me = grid.world().rank();
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        if to != me && !self.region.is_empty() {
            sends.push((to, owned(target, &grid.mesh().coordinates(to), &self.region)));
        }
        if let Some((from, region)) = from.filter(|(from, region)| *from != me && !region.is_empty()) {
            receives.push((from, owned_by_this(target, &region)));
        }
        let local = (to == me && !self.region.is_empty()).then(|| owned_by_this(target, &self.region));
        Pieces { region: self.region.clone(), sends, receives, local }
    }

    /// Sends to every owner what it owns of the tile, and combines what others wrote of this rank's shard into
    /// it; `region_of` says each rank's region from its coordinates (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// before   rank 0 wrote: a0 b0    rank 1 wrote: a1 b1
    /// after    owner of a: a op a0 op a1    owner of b: b op b0 op b1
    /// ```
    ///
    /// One message per pair of ranks; where an axis replicates the array, every owner gets its own. Stages what
    /// it receives. `reach` says where owners are, seen from writers: no other ranks are looked at. Along axes of
    /// partial sums, owners are those at this rank's coordinate.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If `region_of` says another region for this rank than the tile has, or an owner is out of reach: a bug of
    /// polyshard.
    pub fn write_back(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &mut DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
        op: ReduceOp,
    ) -> Result<()> {
        let pieces = self.exchanged(grid, reach, target, region_of);
        self.deliver(grid, &pieces, target, op)
    }

    /// What ranks in reach hand one another.
    pub(super) fn exchanged(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Rc<Pieces> {
        let region = region_of(grid.coords());
        assert!(
            region == self.region || region.is_empty() && self.region.is_empty(),
            "a tile of {} is written back as {region}; this is a bug of polyshard",
            self.region
        );
        let is_known = |sharding: &Sharding, known: &Pieces| {
            self.is_fixed && known.region == region && sharding == target.sharding()
        };
        let known = self.pieces.take().filter(|(sharding, known)| is_known(sharding, known));
        let made = || (target.sharding().clone(), Rc::new(Pieces::new(grid, reach, target, region, region_of)));
        let (_, pieces) = self.pieces.insert(known.unwrap_or_else(made));
        Rc::clone(pieces)
    }

    /// Sends and receives, then combines in ascending order of the writers, this rank among them.
    fn deliver(&mut self, grid: &Grid<'_>, pieces: &Pieces, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        self.sums();
        let world = grid.world();
        let Pieces { sends, receives, .. } = pieces;
        self.incoming.grow(mail::total(receives), "what is combined into an array")?;
        let mut parts = mail::parts(receives, &mut self.incoming);
        mail::exchange(world.comm(), sends, Place::Region, &self.buffer, &mut self.outgoing, &mut parts)?;

        let received: Vec<&[T]> = parts.iter().map(|(_, packed)| &**packed).collect();
        pieces.combine(world.rank(), &received, &self.buffer, target, self.written.as_ref(), op);
        Ok(())
    }
}

impl Pieces {
    /// What each owner in reach gets of `region`, and what this rank gets of the regions of others.
    fn new<T: Element>(
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &DistArray<T>,
        region: Region,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Self {
        let (sharding, mine) = (target.sharding(), target.coordinates());
        // Of what is partial, each rank's own term.
        let of_term = |other: &[usize], owner: &[usize], region: &Region| {
            let same = sharding.partial().iter().all(|&axis| other[axis] == mine[axis]);
            if same { Subarray::of(sharding, owner, region) } else { Subarray::default() }
        };
        let sends = with_others(grid, reach, |owner, _| of_term(owner, owner, &region));
        let receives =
            with_others(grid, &reach.mirrored(), |writer, indices| of_term(writer, mine, &region_of(indices)));
        let local = Subarray::of(sharding, mine, &region);
        let delivered = mail::total(&sends) + local.len();
        assert!(
            delivered >= region.len(),
            "{delivered} of the {} elements of {region} have an owner in reach, in an array sharded {sharding}; this is a \
             bug of polyshard",
            region.len()
        );
        Self { sends, receives, local: Some(local), region }
    }

    /// Combines what has come, in ascending order of the writers, the rank `me` among them.
    pub(super) fn combine<T: Element>(
        &self,
        me: usize,
        received: &[&[T]],
        buffer: &[T],
        target: &mut DistArray<T>,
        written: Option<&Written>,
        op: ReduceOp,
    ) {
        let before = self.receives.partition_point(|(from, _)| *from < me);
        let mut others = self.receives.iter().zip(received);
        for ((_, part), packed) in others.by_ref().take(before) {
            combine(part, Place::Packed, packed, target, written, op);
        }
        if let Some(local) = &self.local {
            combine(local, Place::Region, buffer, target, written, op);
        }
        for ((_, part), packed) in others {
            combine(part, Place::Packed, packed, target, written, op);
        }
    }
}

/// Where this rank, which owns all of `region`, has it.
pub(super) fn owned_by_this<T>(target: &DistArray<T>, region: &Region) -> Subarray {
    owned(target, target.coordinates(), region)
}

/// Combines what `data` has in `place` into the block.
pub(super) fn combine<T: Element>(
    part: &Subarray,
    place: Place,
    data: &[T],
    target: &mut DistArray<T>,
    written: Option<&Written>,
    op: ReduceOp,
) {
    let block = target.block_mut();
    part.rows(place, Place::Block).next(usize::MAX, |Row { from, to, len }| {
        combine_run(block, to, &data[from..from + len], written, op);
    });
}

/// Combines into the block the sum of what the members have of a part: each has it, in their order, in a tile of the region or
/// packed.
pub(super) fn combine_sum<T: Element>(
    part: &Subarray,
    terms: &[(&[T], Place)],
    target: &mut DistArray<T>,
    written: Option<&Written>,
    op: ReduceOp,
) {
    let block = target.block_mut();
    let mut sums = [T::ZERO; CHUNK];
    let mut packed = 0;
    part.rows(Place::Region, Place::Block).next(usize::MAX, |Row { from, to, len }| {
        for start in (0..len).step_by(CHUNK) {
            let count = CHUNK.min(len - start);
            let sums = &mut sums[..count];
            let first = |place| start + if place == Place::Packed { packed } else { from };
            let terms = terms.iter().map(|&(data, place)| cast_slice(&data[first(place)..][..count]));
            combine_terms(T::DTYPE, op, cast_slice_mut(sums), terms);
            combine_run(block, to + start, sums, written, op);
        }
        packed += len;
    });
}

/// Combines the part into the block out of several tiles of its region, of each of which the elements at some positions count.
pub(super) fn combine_pieces<T: Element>(
    part: &Subarray,
    tiles: &[(&[T], Range<usize>)],
    target: &mut DistArray<T>,
    written: Option<&Written>,
    op: ReduceOp,
) {
    let block = target.block_mut();
    part.rows(Place::Region, Place::Block).next(usize::MAX, |Row { from, to, len }| {
        for (tile, piece) in tiles {
            let (start, end) = (from.max(piece.start), (from + len).min(piece.end));
            if start < end {
                combine_run(block, to + start - from, &tile[start..end], written, op);
            }
        }
    });
}

/// Combines `data` into the elements of the block from position `to` on, as far as they are written.
fn combine_run<T: Element>(block: &mut [T], to: usize, data: &[T], written: Option<&Written>, op: ReduceOp) {
    let mut put = |run: Range<usize>| {
        let data = &data[run.start - to..][..run.len()];
        combine_bytes(T::DTYPE, op, cast_slice_mut(&mut block[run]), cast_slice(data));
    };
    match written {
        None => put(to..to + data.len()),
        Some(written) => written.runs(to..to + data.len(), put),
    }
}
