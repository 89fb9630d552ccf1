//! Tiles whose regions begin to come before they are read: messages are in flight while a leaf computes.
//!
//! ```text
//! begin_..    posts what this rank sends and receives of the region of a later iteration
//! poll        lets that go on, between slices of a leaf; or the progress thread does
//! arrive      waits for the region that began first, which the tile then holds
//! ```
//!
//! All ranks begin in the same order. What a rank sees in memory that ranks share is read when it is wanted: for that nothing
//! begins. A region that one rank sends is held in the message itself, on both sides, which nobody writes any more.

use super::exchange::Pieces;
use super::in_place::{Near, all_parts};
use super::under_way::{Begun, Transfers, flight};
use super::{Held, Tile, cyclic_neighbour, one_box, owned, room, root};
use crate::comm::{Communicator, Flight, Piece, Rounds, connect};
use crate::layout::Neighbours;
use crate::progress::UnderWay;
use crate::subarray::{Place, Subarray};
use crate::{Element, Grid, Group, Region, Result, Shards, World};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::Passing;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A region that is on its way to a tile.
pub(super) struct Coming {
    region: Region,
    arrival: Arrival,
}

/// How a region gets here.
enum Arrival {
    /// It takes no message.
    Near(Near),
    /// It is the message that this rank sends.
    Sent(Arc<Piece>),
    /// It is the message that this rank receives, or what passes from rank to rank.
    Received,
    /// It is put together of what this rank owns, what it sees and what it receives.
    Parts { local: Vec<Subarray>, seen: Vec<(usize, Subarray)>, receives: Vec<(usize, Subarray)> },
    /// The same, of the pieces that the tile has exchanged last.
    Pieces,
}

impl fmt::Debug for Coming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coming").field("region", &self.region).finish_non_exhaustive()
    }
}

impl<T: Element> Tile<T> {
    /// Returns a tile to which regions begin to come up to `depth` iterations before they are read. What a group gets at once, such as
    /// what it [broadcasts](Self::begin_broadcast), comes as `passing` says, from its owner or from rank to rank; that takes communicators
    /// of its own. The links are connected here, by an empty message over each, so all of the group must make the tile.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::program::Passing;
    /// use polyshard::runtime::leaf::{nest, pointwise};
    /// use polyshard::runtime::{Grid, Region, StridedMut, Tile};
    /// let mesh = Mesh::new([("x", 3)]);
    /// let rows = Sharding::new(&mesh, &[6], &[Placement::block(0, mesh.axes::<1>()[0])]).expect("a sharding");
    /// spmd(3, |world| {
    ///     let row = Grid::new(world, &mesh)?.group(&[0])?;
    ///     let a = DistArray::from_fn(world, &rows, |index| index[0] as f64)?;
    ///     let mut tile = Tile::ahead("A", 2, 1, Some((&row, Passing::Chain(1))))?;
    ///     let panel = |nth: i64| Region::new(std::iter::once(2 * nth..2 * nth + 2));
    ///     tile.begin_broadcast(&row, &[0], &a, &panel(0))?;
    ///     for nth in 0..3 {
    ///         tile.arrive(world, &a)?;
    ///         if nth + 1 < 3 {
    ///             tile.begin_broadcast(&row, &[nth + 1], &a, &panel(nth + 1))?;
    ///         }
    ///         tile.poll(world)?; // between parts of what is computed on the tile
    ///         let (panel, mut sum) = (tile.view(&a).strided(&[2 * nth], &[&[1]]), [0.0]);
    ///         let target = StridedMut::new(&mut sum, 0, vec![0]);
    ///         nest(&[2], target, ReduceOp::Sum, &[panel], &pointwise(|[element]: [f64; 1]| element));
    ///         assert_eq!(sum, [(4 * nth + 1) as f64]);
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`new`](Self::new), and if another rank failed.
    pub fn ahead(name: &str, elements: usize, depth: usize, passing: Option<(&Group, Passing)>) -> Result<Self> {
        let passed_on = passing.filter(|(_, passing)| !passing.is_direct());
        let lanes = passed_on.iter().flat_map(|(group, _)| (0..=depth).map(|_| group.comm().lane()));
        let transfers = Transfers::by(lanes.collect::<Result<_>>()?);
        if let Some((group, how)) = passing {
            connect(group.comm(), how)?;
        }
        Ok(Self { transfers, passing: passing.map_or(Passing::Direct, |(_, how)| how), ..Self::new(name, elements)? })
    }

    /// Returns the tile, connected with the ranks in reach, whose messages come ahead: by an empty message over each link, so all ranks of
    /// the grid must call it.
    ///
    /// ```
    /// use polyshard::layout::{Neighbours, Reach};
    /// use polyshard::prelude::*;
    /// use polyshard::runtime::{Grid, Tile};
    /// let mesh = Mesh::new([("x", 3)]);
    /// let next = Neighbours::in_box([Reach::Around { low: 1, high: 1 }]);
    /// spmd(3, |world| {
    ///     let grid = Grid::new(world, &mesh)?;
    ///     let tile = Tile::<f32>::ahead("A", 64, 1, None)?.connected(&grid, &next)?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If another rank failed.
    pub fn connected(self, grid: &Grid<'_>, reach: &Neighbours) -> Result<Self> {
        grid.connect(reach)?;
        Ok(self)
    }

    /// Forgets what a run that failed has left on its way: to drop it makes every later call of this rank an error. Every run begins so.
    pub fn restart(&mut self) {
        self.coming.clear();
        self.transfers.clear();
    }

    fn begin(&mut self, region: &Region, flight: Option<Flight>, arrival: Arrival) {
        self.begin_by(region, Begun::Messages(flight), arrival);
    }

    fn begin_by(&mut self, region: &Region, begun: Begun, arrival: Arrival) {
        self.transfers.begin(begun);
        self.coming.push_back(Coming { region: region.clone(), arrival });
    }

    /// As [`copy`](Self::copy) of a region of this rank's own shard, which [arrives](Self::arrive) later; it is not copied if it is one
    /// box there.
    ///
    /// # Panics
    /// As for [`copy`](Self::copy).
    pub fn begin_own<'a>(&mut self, source: impl Into<Shards<'a, T>>, region: &Region) {
        let near = self.own(source.into(), region);
        self.begin(region, None, Arrival::Near(near));
    }

    /// As [`broadcast`](Self::broadcast), but does not wait: the region [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// If another rank failed, or there is too little memory for the message.
    ///
    /// # Panics
    /// As for [`broadcast`](Self::broadcast).
    pub fn begin_broadcast<'a>(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let (source, root) = (source.into(), root(group, root_coordinates, region));
        let is_root = group.rank() == root;
        let (begun, arrival) = if let Some(near) = self.near(source, group, Some(root), region) {
            (Begun::Messages(None), Arrival::Near(near))
        } else {
            let mut message = room_for::<T>(region.len())?;
            if is_root {
                let own = owned(source.array(), source.coordinates(), region);
                own.copy(Place::Block, source.block(), Place::Region, cast_slice_mut(&mut message));
            }
            let size = group.size();
            let cut = |segments: usize| Rounds::segments(message.len(), segments, size_of::<T>());
            match self.passing {
                Passing::Direct => post_to_all(group, root, message)?,
                Passing::Chain(segments) => {
                    let members = (0..size).map(|nth| (root + nth) % size).collect();
                    let rounds = Rounds::chain(members, group.rank(), cut(segments));
                    (self.transfers.passing(rounds.start(message, None))?, Arrival::Received)
                }
                Passing::Circulant(segments) => {
                    let rounds = Rounds::circulant(size, group.rank(), root, cut(segments));
                    (self.transfers.passing(rounds.start(message, None))?, Arrival::Received)
                }
            }
        };
        self.begin_by(region, begun, arrival);
        Ok(())
    }

    /// As [`all_gather`](Self::all_gather), but does not wait: each owner sends its part to each member, and the region
    /// [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`all_gather`](Self::all_gather).
    pub fn begin_all_gather<'a>(
        &mut self,
        group: &Group,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        let source = source.into();
        let (flight, arrival) = if let Some(near) = self.near(source, group, None, region) {
            (None, Arrival::Near(near))
        } else {
            let parts = all_parts(source, group, region);
            let me = group.rank();
            let (own, others): (Vec<_>, Vec<_>) =
                parts.into_iter().filter(|(_, part)| part.len() > 0).partition(|(member, _)| *member == me);
            let mut sends = Vec::new();
            for (_, part) in &own {
                let message = packed(part, source)?;
                sends = (0..group.size()).filter(|&to| to != me).map(|to| (to, Arc::clone(&message))).collect();
            }
            let flight = post(group.comm(), sends, &others, size_of::<T>())?;
            let local = own.into_iter().map(|(_, part)| part).collect();
            (flight, Arrival::Parts { local, seen: Vec::new(), receives: others })
        };
        self.begin(region, flight, arrival);
        Ok(())
    }

    /// As [`permute`](Self::permute), but does not wait: the region [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`permute`](Self::permute).
    pub fn begin_permute<'a>(
        &mut self,
        grid: &Grid<'_>,
        from: usize,
        to: Option<(usize, Region)>,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let (source, me) = (source.into(), grid.world().rank());
        let sent = |to: usize, region: &Region| to != me && !region.is_empty() && !source.is_seen_by(to);
        let mut sends = Vec::new();
        if let Some((to, region)) = to.filter(|(to, region)| sent(*to, region)) {
            sends.push((to, packed(&owned(source.array(), source.coordinates(), &region), source)?));
        }
        let (receives, arrival) = match self.near_one(source, from, region) {
            Some(near) => (None, Arrival::Near(near)),
            None => (Some((from, room_for::<T>(region.len())?)), Arrival::Received),
        };
        let flight = flight(grid.world().comm(), sends, receives.into_iter().collect())?;
        self.begin(region, flight, arrival);
        Ok(())
    }

    /// As [`exchange`](Self::exchange), but does not wait: the region [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`exchange`](Self::exchange).
    pub fn begin_exchange<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        let (source, region) = (source.into(), region_of(grid.coords()));
        let pieces = Pieces::new(grid, reach, source, &region, region_of);
        source.count(pieces.in_place());
        let flight = pieces.post(grid, source)?;
        let arrival = if region.is_empty() || pieces.is_own() {
            Arrival::Near(self.own(source, &region))
        } else {
            Arrival::Parts { local: pieces.local, seen: pieces.seen, receives: pieces.receives }
        };
        self.begin(&region, flight, arrival);
        Ok(())
    }

    /// As [`halo`](Self::halo), but does not wait: the rest of the region [arrives](Self::arrive) later, and until then what this rank owns
    /// can be read.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`halo`](Self::halo).
    pub fn begin_halo<'a>(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        source: impl Into<Shards<'a, T>>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        let (source, region) = (source.into(), region_of(grid.coords()));
        let pieces = self.pieces_of(grid, reach, source, &region, region_of, true);
        source.count(pieces.in_place());
        let flight = pieces.post(grid, source)?;
        let arrival = if region.is_empty() || pieces.is_own() {
            // It is there from the beginning.
            let near = self.own(source, &region);
            self.hold_near(source, &region, near)?;
            Arrival::Near(Near::Held)
        } else {
            self.held = pieces.held(&region);
            Arrival::Pieces
        };
        self.pieces = Some(pieces);
        self.begin(&region, flight, arrival);
        Ok(())
    }

    /// As [`shift`](Self::shift), but does not wait: what the tile holds is sent while it is read, and the region
    /// [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_broadcast`](Self::begin_broadcast).
    ///
    /// # Panics
    /// As for [`shift`](Self::shift).
    pub fn begin_shift<'a>(
        &mut self,
        group: &Group,
        by: i64,
        source: impl Into<Shards<'a, T>>,
        region: &Region,
    ) -> Result<()> {
        one_box(region);
        let source = source.into();
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        let (flight, arrival) = if let Some(near) = self.anywhere(source, region, from != group.rank()) {
            (None, Arrival::Near(near))
        } else if from == group.rank() {
            self.holds(region);
            (None, Arrival::Near(Near::Held))
        } else {
            let message = self.message(source)?;
            let sends = if message.is_empty() { Vec::new() } else { vec![(to, message)] };
            let (receives, arrival) = match region.is_empty() {
                true => (Vec::new(), Arrival::Near(Near::Empty)),
                false => (vec![(from, room_for::<T>(region.len())?)], Arrival::Received),
            };
            (flight(group.comm(), sends, receives)?, arrival)
        };
        self.begin(region, flight, arrival);
        Ok(())
    }

    /// What the tile holds, as a message.
    fn message(&mut self, source: Shards<'_, T>) -> Result<Arc<Piece>> {
        if let Held::Message(_, message) = &self.held {
            return Ok(Arc::clone(message));
        }
        let data = self.held.data(&mut self.buffer, source)?;
        Ok(Arc::new(Piece::copy_of(cast_slice(data), "a message that a tile sends")?))
    }

    /// Lets what has begun to come go on, without waiting; returns whether some of it is still on its way and has to be polled again: the
    /// [progress thread](World::poll_meanwhile) does without.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn poll(&mut self, world: &World) -> Result<bool> {
        self.transfers.poll(world)
    }

    /// Returns what has begun to come, for the [progress thread](World::poll_meanwhile).
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::runtime::{Progress, Tile};
    /// spmd(2, |world| {
    ///     world.set_progress(Progress::Thread)?;
    ///     let mut tile = Tile::<f32>::ahead("A", 64, 1, None)?;
    ///     assert!(!tile.poll(world)?);
    ///     let polled = world.poll_meanwhile([tile.under_way()]);
    ///     // A leaf computes here.
    ///     drop(polled);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn under_way(&self) -> UnderWay {
        self.transfers.handle()
    }

    /// Waits for the region that began to come first, and holds it.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If nothing has begun: a bug in polyshard.
    pub fn arrive<'a>(&mut self, world: &World, source: impl Into<Shards<'a, T>>) -> Result<()> {
        let coming = self.coming.pop_front();
        let Coming { region, arrival } =
            coming.expect("a region arrives that has not begun to come; this is a bug in polyshard");
        let received = self.transfers.finish(world.comm())?.received;
        let source = source.into();
        match arrival {
            Arrival::Near(near) => self.hold_near(source, &region, near)?,
            Arrival::Sent(message) => self.held = Held::Message(region, message),
            Arrival::Received => {
                let message = received.into_iter().next().expect("one message is received");
                self.held = Held::Message(region, Arc::new(message));
            }
            Arrival::Pieces => {
                let pieces = self.pieces.take().expect("what has begun to come is known; this is a bug in polyshard");
                for ((_, part), message) in pieces.receives.iter().zip(&received) {
                    part.copy(Place::Packed, cast_slice(message), Place::Region, room(&mut self.buffer, &region));
                }
                let done = self.hold_pieces(source, &region, &pieces);
                self.pieces = Some(pieces);
                done?;
            }
            Arrival::Parts { local, seen, receives } => {
                let buffer = room(&mut self.buffer, &region);
                for part in &local {
                    part.copy(Place::Block, source.block(), Place::Region, buffer);
                }
                for (rank, part) in &seen {
                    part.copy(Place::Block, source.block_of(*rank)?, Place::Region, buffer);
                }
                for ((_, part), message) in receives.iter().zip(&received) {
                    part.copy(Place::Packed, cast_slice(message), Place::Region, buffer);
                }
                self.held = Held::Buffer(region);
            }
        }
        Ok(())
    }
}

impl Pieces {
    /// Posts what others get of this rank's shard, and room for what it gets of theirs.
    fn post<T: Element>(&self, grid: &Grid<'_>, source: Shards<'_, T>) -> Result<Option<Flight>> {
        let sends = self.sends.iter().map(|(to, part)| Ok((*to, packed(part, source)?)));
        post(grid.world().comm(), sends.collect::<Result<_>>()?, &self.receives, size_of::<T>())
    }
}

/// A message of this many elements, to be filled.
pub(super) fn room_for<T: Element>(elements: usize) -> Result<Piece> {
    Piece::new(elements * size_of::<T>(), "a message of a tile")
}

/// A part of this rank's shard, as a message.
fn packed<T: Element>(part: &Subarray, source: Shards<'_, T>) -> Result<Arc<Piece>> {
    let mut message = room_for::<T>(part.len())?;
    part.copy(Place::Block, source.block(), Place::Packed, cast_slice_mut(&mut message));
    Ok(Arc::new(message))
}

/// Posts messages, with room for these parts of `size` bytes an element.
pub(super) fn post(
    comm: &dyn Communicator,
    sends: Vec<(usize, Arc<Piece>)>,
    receives: &[(usize, impl Borrow<Subarray>)],
    size: usize,
) -> Result<Option<Flight>> {
    let room = |part: &Subarray| Piece::new(part.len() * size, "a message of a tile");
    let receives = receives.iter().map(|(from, part)| Ok((*from, room(part.borrow())?)));
    flight(comm, sends, receives.collect::<Result<_>>()?)
}

/// Posts a message of the member `root` to each other one.
fn post_to_all(group: &Group, root: usize, message: Piece) -> Result<(Begun, Arrival)> {
    if group.rank() != root {
        let flight = flight(group.comm(), Vec::new(), vec![(root, message)])?;
        return Ok((Begun::Messages(flight), Arrival::Received));
    }
    let message = Arc::new(message);
    let others = (0..group.size()).filter(|&member| member != root);
    let sends = others.map(|to| (to, Arc::clone(&message))).collect();
    Ok((Begun::Messages(flight(group.comm(), sends, Vec::new())?), Arrival::Sent(message)))
}
