//! Tiles: the regions of tensors that one step of a program reads or writes, fetched from and combined at the ranks that own them.
//!
//! A [`Tile`] is a region and its elements: in memory of its own, in a shard, or in a message. A [`Link`] is one rank's side of a transfer
//! between shards and a tile, in either direction, and decides nothing: the program states which region to move, from which rank and along
//! which axes. All members of a group call the same operations, with equal arguments up to their own coordinates; empty regions are legal,
//! and cost nothing.
//!
//! | operation | in: into the tile | out: from the tile | ranks that communicate |
//! | --- | --- | --- | --- |
//! | [`own`](Link::own), [`combine_own`](Link::combine_own) | from the rank's own shard | into it | none |
//! | [`broadcast`](Link::broadcast), [`reduce`](Link::reduce) | from one member | sums at one member, or at all | a group |
//! | [`all_gather`](Link::all_gather), [`reduce_scatter`](Link::reduce_scatter) | parts of all members | sums of each member's part | a group |
//! | [`permute`](Link::permute), [`permute_back`](Link::permute_back) | from one rank | to one rank | pairs |
//! | [`exchange`](Link::exchange), [`write_back`](Link::write_back) | all parts, from their owners | to all owners | pairs |
//! | [`shift`](Link::shift), [`take_over`](Link::take_over) | a neighbour's tile | a neighbour's sums | a group |
//!
//! Each operation is done when it returns ([`When::Now`]), or only begins ([`When::Later`]): then messages are in flight while a leaf
//! computes, and [`arrive`](Link::arrive) or [`combine_next`](Link::combine_next) completes the one that began first. Data that is
//! contiguous in a shard is sent from there; other data is packed once, by whole rows. The caller's arrays are never written, except
//! outputs.
//!
//! | module | holds |
//! | --- | --- |
//! | `link` | links, and their transfers in flight |
//! | `fetch`, `collective`, `pairs` | tiles that are read in place and fetched |
//! | `sums`, `stages`, `terms`, `written` | tiles that are combined into their owners' shards |
//! | `route`, `sequence`, `in_flight` | cached routes of regions, and messages that are polled |

mod collective;
mod fetch;
mod in_flight;
mod link;
mod pairs;
mod route;
mod sequence;
mod stages;
mod sums;
mod terms;
mod written;

pub(crate) use in_flight::{Flights, Posted};
#[cfg(test)]
pub(crate) use link::now;
pub(crate) use link::{Fetching, How, Link, Source, When, post};
pub(crate) use sums::scatter;
pub(crate) use terms::Target;
pub(crate) use written::Written;

use crate::comm::Piece;
use crate::exchange::owned;
use crate::layout::Sharding;
use crate::memory::Buffer;
use crate::region::{Strides, strides};
use crate::subarray::{Place, Subarray};
use crate::view::Ranges;
use crate::{Element, Group, ReduceOp, Region, Result, Shards, View, ViewMut};
use bytemuck::cast_slice;
use smallvec::smallvec;
use std::ops::Range;
use std::sync::Arc;

/// A region of a tensor, and its elements.
///
/// It holds nothing; or a region of this rank's own shard, or of another shard that it can see, in place; or a region in its buffer or in a
/// message, dense and row-major.
pub(crate) struct Tile<T> {
    held: Held,
    buffer: Buffer<T>,
    /// The value that each element of the buffer stands for, if nothing has been written since the tile was reset.
    unset: Option<T>,
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
    pub(crate) fn new(name: &str, elements: usize) -> Result<Self> {
        Ok(Self::in_buffer(Buffer::new(elements, format_args!("a tile of `{name}`"))?))
    }

    /// As [`new`](Self::new), in memory that other ranks can read.
    pub(crate) fn to_be_read(name: &str, elements: usize) -> Result<Self> {
        Ok(Self::in_buffer(Buffer::to_be_read(elements, format_args!("a tile of `{name}`"))?))
    }

    fn in_buffer(buffer: Buffer<T>) -> Self {
        Self { held: Held::Nothing, buffer, unset: None }
    }

    /// Makes it the tile of `region`, whose elements are arbitrary. Moves no data.
    pub(crate) fn clear(&mut self, region: &Region) {
        one_box(region);
        let _ = self.room(region);
        self.held = Held::Buffer(region.clone());
        self.unset = None;
    }

    /// As [`clear`](Self::clear), but each element stands for the value that `op` combines with any other without changing it: the
    /// identity, but -0.0 for sums.
    fn reset(&mut self, region: &Region, op: ReduceOp) {
        self.clear(region);
        self.unset = Some(neutral(op));
    }

    /// Returns the region that the tile holds, addressed by global index; `shards` is the array that it was fetched from.
    fn view<'a>(&'a self, shards: Shards<'a, T>) -> View<'a, T> {
        let source = shards.array();
        match &self.held {
            Held::InPlace(region, InPlace { rank, start, strides, .. }) => {
                let block = shards.block_of(*rank);
                let block = block.expect("what is held has been looked up; this is a bug in polyshard");
                View::new(&block[*start..], region.origin(), strides.clone()).like_tile(region.strides())
            }
            // The shard includes the gaps between blocks.
            Held::Shard(region) if region.has_blocks() => source.view(),
            Held::Shard(region) if !region.is_empty() => source.view_of(region),
            Held::Buffer(region) if !region.is_empty() => self.buffered(region),
            Held::Around(region, interior) => self.buffered(region).around(interior.clone(), source.view()),
            Held::Message(region, message) => dense(cast_slice(message), region),
            _ => View::new(&[], smallvec![0; source.ndim()], smallvec![0; source.ndim()]),
        }
    }

    /// Returns the region that its buffer holds, addressed by global index.
    pub(crate) fn own_view(&self) -> View<'_, T> {
        self.buffered(self.region())
    }

    /// The `region` in the buffer.
    fn buffered(&self, region: &Region) -> View<'_, T> {
        dense(&self.buffer[..region.len()], region)
    }

    /// Returns the elements of the region in its buffer, addressed by global index, for a leaf to combine its results into them.
    ///
    /// The leaf assigns each element of a tile that has just been reset a value, if only the identity.
    pub(crate) fn view_mut(&mut self) -> ViewMut<'_, T> {
        let Held::Buffer(region) = &self.held else {
            unreachable!("{:?} is written; this is a bug in polyshard", self.held)
        };
        let data = &mut self.buffer[..region.len()];
        let view = ViewMut::new(data, region.origin(), region.strides()).in_blocks(region);
        match self.unset.take() {
            None => view,
            Some(value) => view.unset(value),
        }
    }

    /// The region in its buffer.
    fn region(&self) -> &Region {
        let Held::Buffer(region) = &self.held else {
            unreachable!("{:?} is sent; this is a bug in polyshard", self.held)
        };
        region
    }

    /// The elements in its buffer, to be sent or combined; if nothing was written to the tile since [`reset`](Self::reset), each is the
    /// value that it stands for.
    fn sums(&mut self) -> &mut [T] {
        let len = self.region().len();
        let sums = &mut self.buffer[..len];
        if let Some(value) = self.unset.take() {
            sums.fill(value);
        }
        sums
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
    View::new(data, region.origin(), region.strides()).in_blocks(region)
}

/// The value that leaves every bit of any other unchanged.
fn neutral<T: Element>(op: ReduceOp) -> T {
    if op == ReduceOp::Sum { T::ZERO.negate() } else { op.identity() }
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
