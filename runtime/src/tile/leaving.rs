//! Output tiles that begin to leave before they are combined into their owners' shards: messages are in flight while a leaf computes the
//! next tiles.
//!
//! ```text
//! begin_..    posts what this rank sends of its tile, and receives for its shard
//! poll        lets that go on, between slices of a leaf
//! arrive      waits for the tile that began first, and combines what has come with this rank's own
//! ```
//!
//! All ranks begin in the same order, and tiles are combined in it, each as it would be at once, so that sums have the same bits. Until
//! then a tile's buffer is its own: it holds this rank's terms. Where members of a group see one another's tiles, their sums are taken
//! there when they would begin to leave, after those before them.

use super::ahead::{flight, post, room_for};
use super::out::{CHUNK, End, Lane, Leaving, Pieces, combine, combine_sum, owned_by_this};
use super::sums::{Terms, exchanged, parts_of, piece, wholes_of};
use super::{OutTile, root};
use crate::comm::{Communicator, Flight, Order, Piece, combine_terms};
use crate::layout::Neighbours;
use crate::memory::Buffer;
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Grid, Group, ReduceOp, Region, Result, World};
use bytemuck::{cast_slice, cast_slice_mut};
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

impl<T: Element> OutTile<T> {
    /// Returns a tile that may leave while the next `depth` are written, each in a buffer of its own. A `group` is needed where its sums
    /// are taken [`in_pieces`](Self::in_pieces), which takes a communicator of its own: then all of the group must make the tile.
    ///
    /// ```
    /// use polyshard_runtime::layout::{Mesh, Placement, Sharding};
    /// use polyshard_runtime::leaf::{nest, pointwise};
    /// use polyshard_runtime::{DistArray, Error, Grid, OutTile, ReduceOp, Region, Strided, spmd};
    /// let mesh = Mesh::new([("x", 3)]);
    /// let rows = Sharding::new(&mesh, &[6], &[Placement::block(0, mesh.axes::<1>()[0])]).expect("a sharding");
    /// spmd(3, |world| {
    ///     let row = Grid::new(world, &mesh)?.group(&[0])?;
    ///     let mut c = DistArray::from_fn(world, &rows, |_| 0.0)?;
    ///     let mut tile = OutTile::ahead("C", 2, 1, None)?;
    ///     for nth in 0..3 {
    ///         tile.reset(&Region::new(std::iter::once(2 * nth..2 * nth + 2)), ReduceOp::Sum);
    ///         tile.poll(world)?; // between parts of what is computed for the tile
    ///         let target = tile.view_mut().strided(&[2 * nth], &[&[1]]);
    ///         let one = Strided::new(&[1.0], 0, vec![0]);
    ///         nest(&[2], target, ReduceOp::Sum, &[one], &pointwise(|[element]: [f64; 1]| element));
    ///         tile.begin_reduce(&row, &[nth], &mut c, ReduceOp::Sum)?;
    ///         if nth > 0 {
    ///             tile.arrive(world, &mut c, ReduceOp::Sum)?;
    ///         }
    ///     }
    ///     tile.arrive(world, &mut c, ReduceOp::Sum)?;
    ///     assert_eq!(c.block(), [3.0, 3.0]);
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`new`](Self::new), and if another rank failed.
    pub fn ahead(name: &str, elements: usize, depth: usize, group: Option<&Group>) -> Result<Self> {
        let mut tile = Self::new(name, elements)?;
        for _ in 0..depth {
            tile.spare.push(Buffer::to_be_read(elements, format_args!("a tile of `{name}`"))?);
        }
        tile.lane = Lane(group.map(|group| group.comm().split(0, group.rank())).transpose()?);
        Ok(tile)
    }

    /// Forgets what a run that failed has left on its way: to drop it makes every later call of this rank an error. Every run begins so.
    pub fn restart(&mut self) {
        self.spare.extend(self.leaving.drain(..).map(|leaving| leaving.buffer).filter(|buffer| !buffer.is_empty()));
    }

    /// As [`reduce`](Self::reduce), but does not wait: the sums [arrive](Self::arrive) later.
    ///
    /// # Errors
    /// If another rank failed, or there is too little memory for the messages.
    ///
    /// # Panics
    /// As for [`reduce`](Self::reduce), and if the order of the terms is left to the library.
    pub fn begin_reduce(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let root = root(group, root_coordinates, &self.region);
        self.begin_sums(group, Some(root), target, op)
    }

    /// As [`all_reduce`](Self::all_reduce), but does not wait: the sums [arrive](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`begin_reduce`](Self::begin_reduce).
    pub fn begin_all_reduce(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        self.begin_sums(group, None, target, op)
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), but does not wait: the sums [arrive](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`reduce_scatter`](Self::reduce_scatter), and if the order of the terms is left to the library.
    pub fn begin_reduce_scatter(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        if self.region.is_empty() {
            self.leave(None, End::Combined);
            return Ok(());
        }
        let own = self.own_part(target, |target, region| parts_of(group, target, region).swap_remove(group.rank()));
        self.begin_parts(group, own, |target, region| parts_of(group, target, region), target, op)
    }

    /// As [`permute_back`](Self::permute_back), but does not wait: what comes [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`permute_back`](Self::permute_back).
    pub fn begin_permute_back(
        &mut self,
        grid: &Grid<'_>,
        to: usize,
        from: Option<(usize, Region)>,
        target: &DistArray<T>,
    ) -> Result<()> {
        let pieces = Rc::new(self.permuted(grid, to, from, target));
        self.begin_pieces(grid, pieces)
    }

    /// As [`write_back`](Self::write_back), but does not wait: what comes [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`write_back`](Self::write_back).
    pub fn begin_write_back(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        let pieces = self.exchanged(grid, reach, target, region_of);
        self.begin_pieces(grid, pieces)
    }

    /// Lets what has begun to leave go on, without waiting; returns whether some of it is still on its way.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn poll(&mut self, world: &World) -> Result<bool> {
        let (mut is_leaving, mut is_next) = (false, true);
        for leaving in &mut self.leaving {
            is_leaving |= !leaving.poll(world.comm(), &self.lane, &mut is_next)?;
        }
        Ok(is_leaving)
    }

    /// Waits for the tile that began to leave first, and combines what has come into this rank's shard.
    ///
    /// # Errors
    /// If another rank failed, or there is too little memory for a message.
    ///
    /// # Panics
    /// If nothing has begun: a bug of polyshard.
    pub fn arrive(&mut self, world: &World, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        self.finish(world.comm(), target, op)
    }

    /// As [`arrive`](Self::arrive), on any communicator of this rank.
    fn finish(&mut self, comm: &dyn Communicator, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        let leaving = self.leaving.pop_front();
        let mut leaving = leaving.expect("a tile arrives that has not begun to leave; this is a bug of polyshard");
        leaving.wait(comm)?;
        leaving.pass_on(&self.lane)?;
        leaving.wait(comm)?;
        let messages = leaving.received();
        let received: Vec<&[T]> = messages.iter().map(|message| cast_slice(message)).collect();
        let (mut buffer, written) = (leaving.buffer, self.written.as_ref());
        match leaving.end {
            End::Combined | End::Piece { .. } => {}
            End::Pieces(pieces, me) => pieces.combine(me, &received, &buffer, target, written, op),
            End::Sum { own, me } => {
                let mut terms: Terms<'_, T> = received.iter().map(|&packed| (packed, Place::Packed)).collect();
                if own.len() > 0 {
                    terms.insert(me, (&buffer, Place::Region));
                }
                combine_sum(&own, &terms, target, written, op);
            }
            End::Sums { own, places } => {
                places.into_iter().zip(received).for_each(|(place, sum)| buffer[place].copy_from_slice(sum));
                combine(&own, Place::Region, &buffer, target, written, op);
            }
        }
        if !buffer.is_empty() {
            self.spare.push(buffer);
        }
        Ok(())
    }

    /// Begins sums for the member `root`, or for each member if no root is given.
    fn begin_sums(
        &mut self,
        group: &Group,
        root: Option<usize>,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        if self.region.is_empty() {
            self.leave(None, End::Combined);
            return Ok(());
        }
        let is_wanted = root.is_none_or(|root| root == group.rank());
        let own = if is_wanted { self.own_part(target, owned_by_this) } else { Rc::default() };
        if self.order != Order::RanksInPieces {
            return self.begin_parts(group, own, |target, region| wholes_of(group, root, target, region), target, op);
        }
        if self.can_meet(group, target, op)? && self.reduce_in_place(group, root, target, op)? {
            self.leave(None, End::Combined);
            return Ok(());
        }
        let (me, len) = (group.rank(), self.sums().len());
        let others = || (0..group.size()).filter(move |&member| member != me);
        let bytes = |member| cast_slice::<T, u8>(&self.buffer[piece(len, group.size(), member)]);
        let sends = others().filter(|&to| !bytes(to).is_empty());
        let sends = sends.map(|to| Ok((to, Arc::new(Piece::copy_of(bytes(to), "a message of a tile")?))));
        let receives = others().filter(|_| !bytes(me).is_empty());
        let receives = receives.map(|from| Ok((from, Piece::new(bytes(me).len(), "a message of a tile")?)));
        let flight = flight(group.comm(), sends.collect::<Result<_>>()?, receives.collect::<Result<_>>()?)?;
        self.leave(flight, End::Piece { own, len, root, op });
        Ok(())
    }

    /// Begins to sum up what all members have of this member's part, `own`; `parts` says those of all.
    fn begin_parts(
        &mut self,
        group: &Group,
        own: Rc<Subarray>,
        parts: impl FnOnce(&DistArray<T>, &Region) -> Vec<Subarray>,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        assert!(
            self.order != Order::Any,
            "a library's sums leave while others are computed; this is a bug of polyshard"
        );
        if self.can_meet(group, target, op)? && self.sum_in_place(group, &own, target, op)? {
            self.leave(None, End::Combined);
            return Ok(());
        }
        let [sends, receives] = exchanged(group, &own, parts(target, &self.region));
        let flight = self.send(group.comm(), &sends, &receives)?;
        self.leave(flight, End::Sum { own, me: group.rank() });
        Ok(())
    }

    /// Begins to hand one another what ranks have written.
    fn begin_pieces(&mut self, grid: &Grid<'_>, pieces: Rc<Pieces>) -> Result<()> {
        let flight = self.send(grid.world().comm(), &pieces.sends, &pieces.receives)?;
        self.leave(flight, End::Pieces(pieces, grid.world().rank()));
        Ok(())
    }

    /// Posts parts of the tile, and room for those of others.
    fn send(
        &mut self,
        comm: &dyn Communicator,
        sends: &[(usize, Subarray)],
        receives: &[(usize, Subarray)],
    ) -> Result<Option<Flight>> {
        self.sums();
        let sends = sends.iter().map(|(to, part)| {
            let mut message = room_for::<T>(part.len())?;
            part.copy(Place::Region, &self.buffer, Place::Packed, cast_slice_mut(&mut message));
            Ok((*to, Arc::new(message)))
        });
        post(comm, sends.collect::<Result<_>>()?, receives, size_of::<T>())
    }

    /// Whether members may see one another's tiles; if so, what is leaving is combined first, which keeps the order.
    fn can_meet(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<bool> {
        if self.by_messages || group.near().is_none() {
            return Ok(false);
        }
        for _ in 0..self.leaving.len() {
            self.finish(group.comm(), target, op)?;
            self.leave(None, End::Combined);
        }
        Ok(true)
    }

    /// The tile has begun to leave; its buffer stays where it is if it has been combined.
    fn leave(&mut self, flight: Option<Flight>, end: End) {
        let buffer = match end {
            End::Combined => Buffer::default(),
            _ => std::mem::take(&mut self.buffer),
        };
        self.leaving.push_back(Leaving { buffer, flight, end });
    }
}

impl<T: Element> Leaving<T> {
    /// Goes on without waiting; returns whether all is there. Sums are handed on in the order in which tiles began to leave: `is_next` says
    /// whether all before have been.
    fn poll(&mut self, comm: &dyn Communicator, lane: &Lane, is_next: &mut bool) -> Result<bool> {
        if self.is_here(comm)? && *is_next {
            self.pass_on(lane)?;
        }
        *is_next &= !matches!(self.end, End::Piece { .. });
        Ok(*is_next && self.is_here(comm)?)
    }

    fn is_here(&mut self, comm: &dyn Communicator) -> Result<bool> {
        match self.flight.as_mut().filter(|flight| !flight.is_done()) {
            None => Ok(true),
            Some(flight) => Ok(comm.poll(&mut [flight])? > 0),
        }
    }

    fn wait(&mut self, comm: &dyn Communicator) -> Result<()> {
        self.flight.as_mut().map_or(Ok(()), |flight| comm.wait(&mut [flight]))
    }

    /// What has come.
    fn received(&mut self) -> Vec<Piece> {
        self.flight.take().map(|flight| flight.into_pieces().1).unwrap_or_default()
    }

    /// Where this rank sums up a piece, of which all terms are there: does so, and hands it on.
    fn pass_on(&mut self, lane: &Lane) -> Result<()> {
        let End::Piece { own, len, root, op } = &self.end else { return Ok(()) };
        let (own, len, root, op) = (Rc::clone(own), *len, *root, *op);
        let lane = lane.0.as_deref().expect("sums in pieces have a communicator; this is a bug of polyshard");
        let (me, size) = (lane.rank(), lane.size());
        let pieces = |member| piece(len, size, member);
        let received = self.received();
        let mut sums = [T::ZERO; CHUNK];
        for start in pieces(me).step_by(CHUNK) {
            let range = start..pieces(me).end.min(start + CHUNK);
            let from = start - pieces(me).start;
            let other = |nth: usize| &cast_slice::<u8, T>(&received[nth])[from..from + range.len()];
            let terms = (0..size).map(|member| match member.cmp(&me) {
                Ordering::Less => other(member),
                Ordering::Equal => &self.buffer[range.clone()],
                Ordering::Greater => other(member - 1),
            });
            let sums = &mut sums[..range.len()];
            combine_terms(T::DTYPE, op, cast_slice_mut(sums), terms.map(cast_slice));
            self.buffer[range].copy_from_slice(sums);
        }
        let is_wanted = |member: usize| root.is_none_or(|root| root == member);
        let others = || (0..size).filter(|&member| member != me);
        let sum = Arc::new(Piece::copy_of(cast_slice(&self.buffer[pieces(me)]), "a message of a tile")?);
        let sends = others().filter(|&to| is_wanted(to) && !sum.is_empty()).map(|to| (to, Arc::clone(&sum)));
        let from: Vec<_> = others().filter(|&from| is_wanted(me) && !pieces(from).is_empty()).collect();
        let receives = from.iter().map(|&from| Ok((from, room_for::<T>(pieces(from).len())?)));
        self.flight = flight(lane, sends.collect(), receives.collect::<Result<_>>()?)?;
        self.end = End::Sums { own, places: from.into_iter().map(pieces).collect() };
        Ok(())
    }
}
