//! Tiles exchanged between pairs of ranks: permutations, exchanges of any pattern, and tiles that are shifted through a group.

use super::in_flight::{Posted, flight};
use super::link::{End, Fetching, Link, Source, When, post, room_for};
use super::route::Fetch;
use super::{Held, cyclic_neighbour, one_box, room};
use crate::comm::{Communicator, Piece};
use crate::exchange::{Exchange, owned, total};
use crate::layout::Neighbours;
use crate::subarray::Place;
use crate::subarray::mail::{self, Ends, Turns};
use crate::{Element, Grid, Group, Region, Result, Shards};
use bytemuck::{cast_slice, cast_slice_mut};
use std::mem::swap;
use std::rc::Rc;
use std::sync::Arc;

impl<T: Element> Link<T> {
    /// Receives `region` from the world's rank `from`, which owns all of it, or whose tile holds it, and sends the region given in `to`
    /// from this rank's shard or tile to the rank given there (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// before   rank 0: a    rank 1: b    rank 2: c
    /// after    rank 0: c    rank 1: a    rank 2: b        (from = rank - 1, to = rank + 1)
    /// ```
    ///
    /// Nothing is received if `region` is empty, and nothing is sent if `to` is `None` or its region is empty. A region of this rank's own
    /// shard is held, or copied if it is scattered there. Regions of tiles are always sent at once, and two buffers alternate.
    pub(crate) fn permute(
        &mut self,
        grid: &Grid<'_>,
        (from, to): (usize, Option<(usize, Region)>),
        of: Fetching<'_, T>,
    ) -> Result<()> {
        let (Fetching { source, here: region, .. }, me) = (of, grid.world().rank());
        one_box(region);
        if of.from == Source::Tiles {
            if let Some(near) = self.anywhere(source, region, from != me) {
                return self.hold_fetched(source, region, &near, &[]);
            }
            let to = to.filter(|(to, region)| *to != me && !region.is_empty());
            let handed_on = to.iter().map(|(_, region)| region).chain((from == me).then_some(region));
            handed_on.for_each(|region| self.tile.holds(region));
            let from = (from != me).then_some(from);
            return self.hand_over(grid.world().comm(), to.map(|(to, _)| to), from, source, region);
        }
        let sent = |to: usize, region: &Region| to != me && !region.is_empty() && !source.is_seen_by(to);
        let part = |at: &[usize], region: &Region| Rc::new(owned(source.array(), at, region));
        let sends = to.into_iter().filter(|(to, region)| sent(*to, region));
        let sends = sends.map(|(to, region)| (to, part(source.coordinates(), &region))).collect();
        let mut exchange = Exchange { me, sends, ..Exchange::default() };
        let fetch = self.near_one(source, from, region).unwrap_or_else(|| {
            exchange.receives = vec![(from, part(&grid.mesh().coordinates(from), region))];
            let received = Exchange { me, receives: exchange.receives.clone(), ..Exchange::default() };
            Rc::new(Fetch::new(source, region, received, false))
        });
        self.carry(grid.world().comm(), &exchange, of, fetch)
    }

    /// Fetches on each rank of the grid the region that `region_of` returns for its coordinates, from any owners; if `around`, the part
    /// that this rank owns is not copied: a nest reads it in place, which other leaves cannot.
    ///
    /// Each element is sent by the owner that [`Sharding::owner`](crate::layout::Sharding::owner) names for the reader. Both sides work out
    /// the same messages, one per pair of ranks (MPI 3.1, section 3.7), and a rank sends the elements of its shard that others read, and
    /// nothing else. A region of this rank's own shard is held, or copied if it is scattered there. `reach` is where owners are, relative
    /// to their readers: no other ranks are considered, so that working out the messages takes time in proportion to the number of ranks in
    /// reach. If the reach is a star, elements owned by ranks that differ from the reader along several axes are not sent: they must not be
    /// read. Around a part, that part can be read before the rest has arrived.
    pub(crate) fn exchange(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        region_of: impl Fn(&[i64]) -> Region,
        around: bool,
        of: Fetching<'_, T>,
    ) -> Result<()> {
        let Fetching { source, here: region, when, .. } = of;
        let fetch = self.exchanged(grid, reach, of, region_of, around);
        source.count(total(&fetch.exchange.seen));
        let comm = grid.world().comm();
        if (around, when) == (true, When::Later) {
            let posted = Posted::Messages(post(comm, &fetch.exchange, Place::Block, source.block())?);
            if fetch.is_own() {
                self.hold_fetched(source, region, &fetch, &[])?;
                self.begin(region, posted, End::Done);
            } else {
                self.tile.held = fetch.held(region);
                self.begin(region, posted, End::Fetched(fetch));
            }
            return Ok(());
        }
        self.carry(comm, &fetch.exchange, of, Rc::clone(&fetch))
    }

    /// Sends and receives the pieces of an exchange, of shards, and holds the region that the route then assembles.
    fn carry(
        &mut self,
        comm: &dyn Communicator,
        exchange: &Exchange,
        Fetching { source, here: region, when, .. }: Fetching<'_, T>,
        fetch: Rc<Fetch>,
    ) -> Result<()> {
        if when == When::Later {
            let posted = Posted::Messages(post(comm, exchange, Place::Block, source.block())?);
            self.begin(region, posted, End::Fetched(fetch));
            return Ok(());
        }
        // A region that is in one shard as a whole is held without a buffer.
        let buffer = if exchange.receives.is_empty() { &mut [] } else { self.tile.room(region) };
        let ends = Ends {
            element: size_of::<T>(),
            source: (Place::Block, cast_slice(source.block())),
            target: (Place::Region, cast_slice_mut(buffer)),
        };
        let staging = [&mut self.outgoing, &mut self.incoming];
        mail::exchange(comm, Turns::Together, exchange, ends, staging)?;
        self.hold_fetched(source, region, &fetch, &[])
    }

    /// The route by which ranks in reach exchange pieces, cached while it stays the same. The messages to others are known to be
    /// the same only if the regions of all ranks are.
    fn exchanged(
        &mut self,
        grid: &Grid<'_>,
        reach: &Neighbours,
        Fetching { source, here: region, .. }: Fetching<'_, T>,
        region_of: impl Fn(&[i64]) -> Region,
        around: bool,
    ) -> Rc<Fetch> {
        let are_everywhere = source.are_everywhere();
        let is_fixed = are_everywhere || self.how.is_fixed && !source.are_shared();
        let find = || Fetch::new(source, region, Exchange::fetch(grid, reach, source, region, region_of), around);
        if is_fixed { self.found.get(region, are_everywhere, find) } else { Rc::new(find()) }
    }

    /// Receives `region` from the member `by` places after this one, cyclically through the group, and sends the region that the tile holds
    /// to the member `by` places before (MPI 3.1, section 3.7).
    ///
    /// ```text
    /// by 1     member 0: a    member 1: b    member 2: c
    /// after    member 0: b    member 1: c    member 2: a
    /// ```
    ///
    /// A region that is contiguous in the shard is sent from there; the shard is never written, and after the first shift two buffers
    /// alternate. Sizes may differ between members, as tiles may be short or empty; empty tiles are not sent. Later, the region that the
    /// tile holds can be read until the next one arrives.
    pub(crate) fn shift(&mut self, group: &Group, by: i64, of: Fetching<'_, T>) -> Result<()> {
        let Fetching { source, here: region, when, .. } = of;
        one_box(region);
        let [from, to] = [by, -by].map(|by| cyclic_neighbour(group, by));
        if let Some(near) = self.anywhere(source, region, from != group.rank()) {
            return self.fetch(of, near);
        }
        if from == group.rank() {
            self.tile.holds(region);
            if when == When::Later {
                self.begin(region, Posted::Messages(None), End::Done);
            }
            return Ok(());
        }
        if when == When::Now {
            return self.hand_over(group.comm(), Some(to), Some(from), source, region);
        }
        let message = self.message(source)?;
        let sends = if message.is_empty() { Vec::new() } else { vec![(to, message)] };
        let (receives, end) = match region.is_empty() {
            true => (Vec::new(), End::Fetched(self.known(region, Fetch::default))),
            false => (vec![(from, room_for::<T>(region.len())?)], End::Message(None)),
        };
        let posted = Posted::Messages(flight(group.comm(), sends, receives)?);
        self.begin(region, posted, end);
        Ok(())
    }

    /// The region that the tile holds, as a message.
    fn message(&mut self, source: Shards<'_, T>) -> Result<Arc<Piece>> {
        let tile = &mut self.tile;
        if let Held::Message(_, message) = &tile.held {
            return Ok(Arc::clone(message));
        }
        let data = tile.held.data(&mut tile.buffer, source)?;
        Ok(Arc::new(Piece::copy_of(cast_slice(data), "a message that a tile sends")?))
    }

    /// Sends the tile's region to the rank `to` and receives `region` from the rank `from`, where they are given; empty regions are not
    /// sent.
    fn hand_over(
        &mut self,
        comm: &dyn Communicator,
        to: Option<usize>,
        from: Option<usize>,
        source: Shards<'_, T>,
        region: &Region,
    ) -> Result<()> {
        let from = from.filter(|_| !region.is_empty());
        let tile = &mut self.tile;
        let in_shard = if to.is_some() { tile.held.in_shard(source)? } else { Some(&[][..]) };
        // A send from a shard leaves the buffer free.
        if let Some(data) = in_shard {
            let into = from.map(|from| (from, room(&mut tile.buffer, region)));
            mail::pass_on(comm, to.map(|to| (to, data)), into)?;
        } else {
            self.incoming.grow(tile.buffer.len(), "the second buffer of a tile")?;
            let data = tile.held.data(&mut tile.buffer, source)?;
            let into = from.map(|from| (from, room(&mut self.incoming, region)));
            mail::pass_on(comm, to.map(|to| (to, data)), into)?;
            if from.is_some() {
                swap(&mut tile.buffer, &mut self.incoming);
            }
        }
        if from.is_some() {
            tile.held = Held::Buffer(region.clone());
        } else if region.is_empty() {
            tile.held = Held::Nothing;
        }
        Ok(())
    }
}
