//! Output tiles that are sent before they are combined into their owners' shards: messages are in flight while a leaf computes the next
//! tiles.
//!
//! ```text
//! begin_..    posts this rank's sends from its tile, and its receives for its shard
//! poll        drives them, between slices of a leaf or on the progress thread
//! arrive      waits for the tile that began first, and combines the received terms with this rank's own
//! ```
//!
//! All ranks begin in the same order, and tiles are combined in that order, each as by the blocking operation, so that sums have the same
//! bits. Until then the tile keeps its buffer, which holds this rank's terms. Where members of a group see each other's tiles, their sums
//! are computed in place at the call that begins the transfer, after those of earlier tiles.

use super::ahead::{post, room_for};
use super::pending::{End, Leaving, Pending};
use super::sums::When;
use super::terms::{Fold, combine, combine_received, pieces};
use super::under_way::{Begun, Come, Sums, Transfers, flight};
use super::{OutTile, root};
use crate::comm::{Communicator, Piece, connect};
use crate::exchange::Exchange;
use crate::layout::Neighbours;
use crate::memory::Buffer;
use crate::progress::UnderWay;
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Grid, Group, ReduceOp, Region, Result, World};
use bytemuck::cast_slice;
use polyshard_program::Passing;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

impl<T: Element> OutTile<T> {
    /// Returns a tile that may be in flight while the next `depth` are written, each in a buffer of its own. A `group` is needed if its
    /// sums are taken [`in_pieces`](Self::in_pieces), which takes a communicator of its own, and connections, made by an empty message over
    /// each link: then all members of the group must create the tile.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and if another rank failed.
    pub(crate) fn ahead(name: &str, elements: usize, depth: usize, group: Option<&Group>) -> Result<Self> {
        let mut tile = Self::new(name, elements)?;
        for _ in 0..depth {
            tile.spare.push(Buffer::to_be_read(elements, format_args!("a tile of `{name}`"))?);
        }
        if let Some(group) = group {
            tile.transfers = Transfers::by(vec![group.comm().lane()?]);
            // Each member receives all terms of its piece.
            connect(group.comm(), Passing::Direct)?;
        }
        Ok(tile)
    }

    /// Returns the tile, connected to the ranks in reach to which it sends, as [`Tile::connected`](crate::Tile::connected) does.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn connected(self, grid: &Grid<'_>, reach: &Neighbours) -> Result<Self> {
        grid.connect(&reach.mirrored())?;
        Ok(self)
    }

    /// Forgets the transfers that a failed run left in flight; dropping them makes every later call of this rank an error. Every run begins
    /// with it.
    pub(crate) fn restart(&mut self) {
        self.transfers.clear();
        self.spare.extend(self.leaving.drain(..).map(|leaving| leaving.buffer).filter(|buffer| !buffer.is_empty()));
    }

    /// As [`reduce`](Self::reduce), but does not wait: the sums [arrive](Self::arrive) later.
    ///
    /// # Errors
    /// If another rank failed, or there is too little memory for the messages.
    ///
    /// # Panics
    /// As for [`reduce`](Self::reduce), and if the order of the terms is left to the library.
    pub(crate) fn begin_reduce(
        &mut self,
        group: &Group,
        root_coordinates: &[i64],
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let root = root(group, root_coordinates, &self.region);
        let pending = self.reduce_to(group, Some(root), target, op, When::Later)?;
        self.leave(pending);
        Ok(())
    }

    /// As [`all_reduce`](Self::all_reduce), but does not wait: the sums [arrive](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`begin_reduce`](Self::begin_reduce).
    pub(crate) fn begin_all_reduce(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        let pending = self.reduce_to(group, None, target, op, When::Later)?;
        self.leave(pending);
        Ok(())
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), but does not wait: the sums [arrive](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`reduce_scatter`](Self::reduce_scatter), and if the order of the terms is left to the library.
    pub(crate) fn begin_reduce_scatter(
        &mut self,
        group: &Group,
        target: &mut DistArray<T>,
        op: ReduceOp,
    ) -> Result<()> {
        let pending = self.scatter_to(group, target, op, When::Later)?;
        self.leave(pending);
        Ok(())
    }

    /// As [`permute_back`](Self::permute_back), but does not wait: the other rank's tile [arrives](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`permute_back`](Self::permute_back).
    pub(crate) fn begin_permute_back(
        &mut self,
        grid: &Grid<'_>,
        to: usize,
        from: Option<(usize, Region)>,
        target: &DistArray<T>,
    ) -> Result<()> {
        let terms = Exchange::write_back_to(grid, &self.region, to, from, target);
        let pending = self.send(grid.world().comm(), Rc::new(terms), Fold::Each)?;
        self.leave(Some(pending));
        Ok(())
    }

    /// As [`write_back`](Self::write_back), but does not wait: the other ranks' terms [arrive](Self::arrive) later.
    ///
    /// # Errors
    /// As for [`begin_reduce`](Self::begin_reduce).
    ///
    /// # Panics
    /// As for [`write_back`](Self::write_back).
    pub(crate) fn begin_write_back(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        target: &DistArray<T>,
        region_of: impl Fn(&[i64]) -> Region,
    ) -> Result<()> {
        let terms = self.exchanged(grid, reach, target, region_of);
        let pending = self.send(grid.world().comm(), terms, Fold::Each)?;
        self.leave(Some(pending));
        Ok(())
    }

    /// Drives the transfers that are in flight, without waiting; returns whether some are still in flight and need to be polled again,
    /// which is not necessary with a [progress thread](World::poll_meanwhile).
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn poll(&mut self, world: &World) -> Result<bool> {
        self.transfers.poll(world)
    }

    /// Returns the transfers in flight, for the [progress thread](World::poll_meanwhile).
    #[must_use]
    pub(crate) fn under_way(&self) -> UnderWay {
        self.transfers.handle()
    }

    /// Waits for the tile that began first, and combines the received terms into this rank's shard.
    ///
    /// # Errors
    /// If another rank failed, or there is too little memory for a message.
    ///
    /// # Panics
    /// If nothing has begun: a bug in polyshard.
    pub(crate) fn arrive(&mut self, world: &World, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        self.finish(world.comm(), target, op)
    }

    /// As [`arrive`](Self::arrive), on any communicator of this rank.
    fn finish(&mut self, comm: &dyn Communicator, target: &mut DistArray<T>, op: ReduceOp) -> Result<()> {
        let leaving = self.leaving.pop_front();
        let Leaving { mut buffer, end } =
            leaving.expect("a tile arrives that has not begun to leave; this is a bug in polyshard");
        let Some(end) = end else { return Ok(()) };
        let Come { received, sums } = self.transfers.finish(comm)?;
        let (received, written) = (received.iter().map(|message| cast_slice(message)), self.written.as_ref());
        match end {
            End::Terms(terms, fold) => combine_received(&terms, fold, received, &buffer, target, written, op),
            End::Sums { own, mine, others } => {
                let sums = sums.as_ref().map(|sums| (mine, cast_slice(sums)));
                let all = others.into_iter().zip(received).chain(sums);
                all.for_each(|(place, sums)| buffer[place].copy_from_slice(sums));
                combine(&own, &[(&buffer, Place::Region)], target, written, op);
            }
        }
        if !buffer.is_empty() {
            self.spare.push(buffer);
        }
        Ok(())
    }

    /// Begins sums of which each member computes a piece, for the member `root`, or for each member if no root is given.
    pub(super) fn send_pieces(
        &mut self,
        group: &Group,
        own: Rc<Subarray>,
        root: Option<usize>,
        op: ReduceOp,
    ) -> Result<Pending> {
        let (me, len) = (group.rank(), self.sums().len());
        let mut pieces = pieces(0..len, group.size());
        let others = || pieces.iter().enumerate().filter(|(member, _)| *member != me);
        let terms = |piece: &Range<usize>| {
            let terms = cast_slice::<T, u8>(&self.buffer[piece.clone()]);
            Piece::copy_of(terms, "a message of a tile").map(Arc::new)
        };
        let sends = others().filter(|(_, piece)| !piece.is_empty()).map(|(to, piece)| Ok((to, terms(piece)?)));
        let receives = others().filter(|_| !pieces[me].is_empty());
        let receives = receives.map(|(from, _)| Ok((from, room_for::<T>(pieces[me].len())?)));
        let sums = Sums {
            flight: flight(group.comm(), sends.collect::<Result<_>>()?, receives.collect::<Result<_>>()?)?,
            own: terms(&pieces[me])?,
            are_taken: false,
            me,
            lengths: pieces.iter().map(|piece| piece.len() * size_of::<T>()).collect(),
            root,
            dtype: T::DTYPE,
            op,
        };
        let mine = pieces.remove(me);
        let others = pieces.into_iter().filter(|piece| root.is_none_or(|root| root == me) && !piece.is_empty());
        Ok((Begun::Sums(Box::new(sums)), End::Sums { own, mine, others: others.collect() }))
    }

    /// Posts sends of parts of the tile, and receives of other members' parts.
    pub(super) fn send(&mut self, comm: &dyn Communicator, terms: Rc<Exchange>, fold: Fold) -> Result<Pending> {
        self.sums();
        let flight = post(comm, &terms, Place::Region, &self.buffer)?;
        Ok((Begun::Messages(flight), End::Terms(terms, fold)))
    }

    /// Whether members may see each other's tiles. If they may, tiles in flight are combined first, which keeps the order.
    pub(super) fn can_meet(&mut self, group: &Group, target: &mut DistArray<T>, op: ReduceOp) -> Result<bool> {
        if self.by_messages || group.near().is_none() {
            return Ok(false);
        }
        for _ in 0..self.leaving.len() {
            self.finish(group.comm(), target, op)?;
            self.leave(None);
        }
        Ok(true)
    }

    /// Enqueues the tile as in flight; it keeps its buffer if it has been combined already.
    fn leave(&mut self, pending: Option<Pending>) {
        let (buffer, end) = match pending {
            None => (Buffer::default(), None),
            Some((begun, end)) => {
                self.transfers.begin(begun);
                (std::mem::take(&mut self.buffer), Some(end))
            }
        };
        self.leaving.push_back(Leaving { buffer, end });
    }
}
