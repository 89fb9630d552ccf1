//! Tiles: the regions of tensors that one step of a program reads or writes, fetched from and combined at the ranks that own them.
//!
//! A [`Tile`] is fetched by one operation per step; an [`OutTile`] is combined into its owners' shards at the end of a step. Data that is
//! contiguous in a shard is sent from there; other data is packed once, by whole rows. Buffers are allocated once per tile. The caller's
//! arrays are never written, except outputs.
//!
//! | operation | ranks that communicate | bytes that a rank sends | bytes staged beside the tile |
//! | --- | --- | --- | --- |
//! | [`hold`](Tile::hold), [`copy`](Tile::copy) | none | 0 | 0 |
//! | [`broadcast`](Tile::broadcast) | a group | the root: the region, as MPI spreads it | 0 |
//! | [`shift`](Tile::shift) | a group | the region that it held | a second tile, alternating |
//! | [`permute`](Tile::permute) | pairs | one region | the region sent, if scattered in the shard |
//! | [`broadcast_held`](Tile::broadcast_held) | a group | the root: the region that it holds | 0 |
//! | [`permute_held`](Tile::permute_held) | pairs | the region that it holds | a second tile, alternating |
//! | [`all_gather`](Tile::all_gather) | a group | its part, if it has one, to all | the region, if parts interleave |
//! | [`exchange`](Tile::exchange) | pairs | the elements of its shard that others read | scattered data on either side |
//! | [`halo`](Tile::halo) | pairs | the same | the same; its own part is not copied |
//! | [`begin_broadcast`](Tile::begin_broadcast) and its like | pairs | as the operation, or each part to each member | each message until it arrives |
//! | [`write_back`](OutTile::write_back) | pairs | its region, to each owner | the data that it receives |
//! | [`reduce`](OutTile::reduce), [`all_reduce`](OutTile::all_reduce) | a group | as the reduction in rank order | a second tile |
//! | [`reduce_scatter`](OutTile::reduce_scatter) | a group | the others' parts | a second tile, a third if parts interleave |
//! | [`shift`](OutTile::shift) of sums | a group | its sums | a second tile, alternating |
//! | [`begin_reduce`](OutTile::begin_reduce) and its like | pairs | as the operation | each message until it arrives |
//!
//! A tile decides nothing: the program states which region to fetch, from which rank and along which axes. All members of a group call its
//! operations, with equal arguments up to their own coordinates; empty regions are legal, and cost nothing.
//!
//! | module | holds |
//! | --- | --- |
//! | `fetch`, `collective`, `exchange`, `shift` | tiles that are read in place and fetched |
//! | `out`, `sums`, `terms`, `written` | output tiles |
//! | `ahead`, `leaving`, `pending`, `under_way` | transfers in flight to and from tiles |
//! | `time_steps`, `sequence`, `stages` | data of time steps, and cached routes of regions |

mod ahead;
mod collective;
mod exchange;
mod fetch;
mod leaving;
mod out;
mod pending;
mod sequence;
mod shift;
mod stages;
mod sums;
mod terms;
mod time_steps;
mod under_way;
mod written;

pub(crate) use out::OutTile;
pub(crate) use time_steps::StepBuffers;
pub(crate) use written::Written;

use crate::comm::Piece;
use crate::exchange::owned;
use crate::layout::Sharding;
use crate::memory::Buffer;
use crate::region::{Strides, strides};
use crate::subarray::{Place, Subarray};
use crate::view::Ranges;
use crate::{Element, Group, Region, Result, Shards, View};
use ahead::InFlight;
use bytemuck::cast_slice;
use fetch::Fetch;
use polyshard_program::Passing;
use sequence::Sequence;
use smallvec::smallvec;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use under_way::Transfers;

/// A buffer for the part of an input tensor that one step reads, from one array or from arrays with the same layout.
///
/// It holds nothing; or a region of this rank's own shard, or of another shard that it can see, in place; or a region in its buffer or in a
/// message, dense and row-major.
pub(crate) struct Tile<T> {
    held: Held,
    buffer: Buffer<T>,
    relay: Buffer<T>,
    outgoing: Buffer<T>,
    incoming: Buffer<T>,
    /// Whether the regions of all ranks are the same on every fetch.
    is_fixed: bool,
    /// Whether an all-gather is one broadcast per owner of a part.
    in_pieces: bool,
    /// How a broadcast that begins ahead reaches the members of its group.
    passing: Passing,
    /// The route of the last exchange, and whether all ranks saw all shards then.
    exchanged: Option<(Region, bool, Rc<Fetch>)>,
    /// The routes of regions that were read in place.
    found: Sequence<Rc<Fetch>>,
    /// The route of an empty region.
    nothing: Rc<Fetch>,
    /// The regions in flight; the one that is read first is at the front.
    in_flight: VecDeque<InFlight>,
    /// Their messages.
    transfers: Transfers,
}

impl<T> fmt::Debug for Tile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tile").field("held", &self.held).field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
enum Held {
    Nothing,
    Shard(Region),
    Buffer(Region),
    /// A box of a shard, this rank's or another's, in place.
    InPlace(Region, InPlace),
    /// The region in the buffer, except a box of it, which is read in the shard.
    Around(Region, Ranges),
    /// The region in a message.
    Message(Region, Arc<Piece>),
}

/// Where a box of an array is in the shard of the rank that owns it.
#[derive(Clone, Debug)]
struct InPlace {
    rank: usize,
    /// The position of its first element in the shard, and its strides there.
    start: usize,
    strides: Strides,
    /// Its positions in the shard, if it is contiguous there.
    together: Option<Range<usize>>,
}

impl InPlace {
    /// The place of `part`, a box that the rank at `owner` owns.
    fn new(rank: usize, part: &Subarray, sharding: &Sharding, owner: &[usize]) -> Self {
        let strides = strides(&sharding.local_shape(owner));
        let (start, together) = (part.start(Place::Block), part.contiguous(Place::Block));
        Self { rank, start, strides, together }
    }
}

impl<T: Element> Tile<T> {
    /// Returns an empty tile of the tensor `name` with room for a region of `elements` elements.
    ///
    /// # Errors
    /// If they do not fit in free memory.
    pub(crate) fn new(name: &str, elements: usize) -> Result<Self> {
        Ok(Self {
            held: Held::Nothing,
            buffer: buffer(name, elements)?,
            relay: Buffer::default(),
            outgoing: Buffer::default(),
            incoming: Buffer::default(),
            is_fixed: false,
            in_pieces: false,
            passing: Passing::Direct,
            exchanged: None,
            found: Sequence::default(),
            nothing: Rc::default(),
            in_flight: VecDeque::new(),
            transfers: Transfers::default(),
        })
    }

    /// Returns a tile with two such buffers, for [`shift`](Self::shift).
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn relay(name: &str, elements: usize) -> Result<Self> {
        Ok(Self { relay: buffer(name, elements)?, ..Self::new(name, elements)? })
    }

    /// Returns the tile, to be fetched from one array only and with the same region each time on every rank: the messages of an
    /// [`exchange`](Self::exchange) or a [`halo`](Self::halo) are worked out once.
    #[must_use]
    pub(crate) fn fixed(self) -> Self {
        Self { is_fixed: true, ..self }
    }

    /// Returns the tile, whose [`all_gather`](Self::all_gather) is one broadcast per owner of a part; without it, all parts are gathered at
    /// once. All members of the group must do the same.
    #[must_use]
    pub(crate) fn in_pieces(self) -> Self {
        Self { in_pieces: true, ..self }
    }

    /// Holds `region`, which is in this rank's own shard, without a copy; the shard is one box of the array. Moves no data.
    ///
    /// # Panics
    /// If the region wraps around the end of its array: a bug in polyshard.
    pub(crate) fn hold(&mut self, region: &Region) {
        one_box(region);
        self.held = Held::Shard(region.clone());
    }

    /// Copies `region` out of this rank's own shard, in which it may be scattered. Moves no data between ranks.
    ///
    /// # Panics
    /// If this rank does not own all of it, or it does not fit the buffer: a bug in polyshard.
    pub(crate) fn copy<'a>(&mut self, source: impl Into<Shards<'a, T>>, region: &Region) {
        let source = source.into();
        let own = owned(source.array(), source.coordinates(), region);
        own.copy(Place::Block, source.block(), Place::Region, self.room(region));
        self.held = Held::Buffer(region.clone());
    }

    /// Returns the region that the tile holds, addressed by global index; `source` is the array that it was fetched from.
    ///
    /// # Panics
    /// If it does not hold one box of a shard: a bug in polyshard.
    #[must_use]
    pub(crate) fn view<'a>(&'a self, source: impl Into<Shards<'a, T>>) -> View<'a, T> {
        let shards = source.into();
        let source = shards.array();
        match &self.held {
            Held::InPlace(region, InPlace { rank, start, strides, .. }) => {
                let block = shards.block_of(*rank);
                let block = block.expect("what is held has been looked up; this is a bug in polyshard");
                View::at(&block[*start..], region.origin(), strides.clone()).like_tile(region.strides())
            }
            // The shard includes the gaps between blocks.
            Held::Shard(region) if region.has_blocks() => source.view(),
            Held::Shard(region) if !region.is_empty() => source.view_of(region),
            Held::Buffer(region) if !region.is_empty() => self.buffered(region),
            Held::Around(region, interior) => self.buffered(region).around(interior.clone(), source.view()),
            Held::Message(region, message) => dense(cast_slice(message), region),
            _ => View::at(&[], smallvec![0; source.ndim()], smallvec![0; source.ndim()]),
        }
    }

    /// The `region` in the buffer.
    fn buffered(&self, region: &Region) -> View<'_, T> {
        dense(&self.buffer[..region.len()], region)
    }

    /// Checks that the tile holds `region`.
    fn holds(&self, region: &Region) {
        let same = match &self.held {
            Held::Nothing => region.is_empty(),
            Held::Shard(held)
            | Held::Buffer(held)
            | Held::Around(held, _)
            | Held::InPlace(held, _)
            | Held::Message(held, _) => held == region || held.is_empty() && region.is_empty(),
        };
        assert!(same, "a tile hands on {region}, but has {:?}; this is a bug in polyshard", self.held);
    }

    /// The part of the buffer that holds `region`.
    fn room(&mut self, region: &Region) -> &mut [T] {
        room(&mut self.buffer, region)
    }
}

impl Held {
    /// The elements, in order, if they are contiguous in a shard.
    fn in_shard<'a, T: Element>(&self, source: Shards<'a, T>) -> Result<Option<&'a [T]>> {
        Ok(match self {
            Self::Nothing => Some(&[]),
            Self::Buffer(_) | Self::Message(..) => None,
            Self::InPlace(_, InPlace { rank, together, .. }) => {
                let block = source.block_of(*rank)?;
                together.clone().map(|together| &block[together])
            }
            Self::Shard(region) => {
                let array = source.array();
                let together = owned(array, source.coordinates(), region).contiguous(Place::Block);
                together.map(|together| &array.block()[together])
            }
            Self::Around(region, _) => {
                panic!("a tile around a shard, {region}, is handed on; this is a bug in polyshard")
            }
        })
    }

    /// The elements, in order: from the shard if they are contiguous there, else packed into the buffer.
    fn data<'a, T: Element>(&self, buffer: &'a mut [T], source: Shards<'a, T>) -> Result<&'a [T]> {
        if let Some(data) = self.in_shard(source)? {
            return Ok(data);
        }
        let sharding = source.sharding();
        let (rank, region) = match self {
            Self::InPlace(region, InPlace { rank, .. }) => (*rank, region),
            Self::Shard(region) => (sharding.mesh().rank(source.coordinates()), region),
            Self::Buffer(region) => return Ok(room(buffer, region)),
            Self::Message(region, message) => {
                let data = room(buffer, region);
                data.copy_from_slice(cast_slice(message));
                return Ok(data);
            }
            Self::Nothing | Self::Around(..) => return Ok(&[]),
        };
        let part = Subarray::of(sharding, &sharding.mesh().coordinates(rank), region);
        Ok(part.packed_in(Place::Block, source.block_of(rank)?, buffer))
    }
}

/// A view of a region that is dense and row-major.
fn dense<'a, T>(data: &'a [T], region: &Region) -> View<'a, T> {
    View::at(data, region.origin(), region.strides()).in_blocks(region)
}

fn buffer<T: Element>(name: &str, elements: usize) -> Result<Buffer<T>> {
    Buffer::new(elements, format_args!("a tile of `{name}`"))
}

fn room<'a, T>(buffer: &'a mut [T], region: &Region) -> &'a mut [T] {
    let (len, room) = (region.len(), buffer.len());
    assert!(len <= room, "a region of {len} elements, {region}, is in a tile of {room}; this is a bug in polyshard");
    &mut buffer[..len]
}

/// Checks that a region does not wrap around the end of its array. A wrapping region can be copied, gathered or exchanged only: other
/// operations send from shards, or write each element once.
fn one_box(region: &Region) {
    assert!(!region.wraps(), "{region} is not one box of its array; this is a bug in polyshard");
}

/// The rank of the member at these coordinates along the group's axes, which sends or receives `region`; 0 if `region` is empty.
fn root(group: &Group, coordinates: &[i64], region: &Region) -> usize {
    if region.is_empty() {
        return 0;
    }
    group.member_at(coordinates)
}

/// The member `by` places after this one, cyclically.
fn cyclic_neighbour(group: &Group, by: i64) -> usize {
    (group.rank() as i64 + by).rem_euclid(group.size() as i64) as usize
}

#[cfg(test)]
mod tests;
