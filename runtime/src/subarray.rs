//! Subarrays: the elements that two arrays have in common, and their places in each of them.
//!
//! The part of a region that a rank owns, and the part that it sends to another rank in a redistribution, is a product
//! of spans per dimension for any shardings, and is never listed element by element. Both ends of a message compute the
//! same subarray and order its elements in the same way, row-major by their first place in the region; so no message
//! carries indices. MPI has datatypes of this name (MPI 3.1, section 4.1.3), for one box.
//!
//! ```text
//! 8 rows of 6 on 2 ranks, rows to columns; rank 0 sends 4 rows of 3 to rank 1:
//!
//! rank 0 before              rank 1 after
//! . . . a b c                a b c
//! . . . d e f                d e f
//! . . . g h i                g h i
//! . . . j k l                j k l
//!                            . . .   (rows that rank 1 had already)
//! ```
//!
//! A region that wraps around the end of its array has one more piece per round. An element that it holds more than once
//! is sent once, and copied to each of its places. A region of blocks has a piece per block; pieces merge into one where
//! they are contiguous both in the shard and in the region.
//!
//! Nothing here communicates. Elements are copied by whole rows ([`Rows`]), with dimensions merged that are contiguous in
//! both places, and with streaming stores where that pays ([`Copier`]).

pub(crate) mod mail;
mod rows;
mod spans;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use rows::{Row, Rows};

use crate::layout::Sharding;
use crate::memory::Buffer;
use crate::{Element, Region, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use spans::{Group, Span};
use std::ops::Range;
use stream::Copier;

/// The part that two arrays have in common: a region and the block of a rank, or the blocks of two ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subarray {
    dims: Vec<Vec<Group>>,
    /// The number of groups of each dimension before those that repeat elements at other places of the region.
    once: Vec<usize>,
    /// The shapes of the three places; `shapes[Packed]` is the subarray's own.
    shapes: [Vec<usize>; 3],
    /// The global index of the first element.
    first: Vec<usize>,
    len: usize,
}

/// A place of the elements of a subarray; all three are dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the block of the rank that owns them.
    Block = 0,
    /// In a buffer of the whole region, or in the block of the rank that receives them.
    Region = 1,
    /// In a message that holds nothing else.
    Packed = 2,
}

impl Subarray {
    /// Returns the part of `region` that the rank at `coordinates` owns.
    pub(crate) fn of(sharding: &Sharding, coordinates: &[usize], region: &Region) -> Self {
        let ndim = sharding.shape().len();
        assert_eq!(region.ndim(), ndim, "region {region} of an array of {ndim} dimensions; this is a bug in polyshard");
        let along = |dim: usize| {
            let owned = parts(region, dim).flat_map(|(within, at)| {
                let first = within.start;
                let pieces = sharding.pieces(dim, coordinates, within);
                pieces.map(move |(piece, block)| (piece.start, [block, at + piece.start - first], piece.len()))
            });
            let distance = region.blocks(dim).and_then(|(_, distance)| usize::try_from(distance).ok());
            spans::group(owned, common_period([sharding.dims()[dim].turn(), distance]))
        };
        let shapes = [sharding.local_shape(coordinates), region.shape()];
        let mut found = Self::new((0..ndim).map(along), shapes);
        for (dim, groups) in found.dims.iter_mut().enumerate() {
            if let Some(period) = region.period(dim) {
                spans::repeat(groups, period as usize, found.shapes[Place::Region as usize][dim]);
            }
        }
        if region.is_empty() || !sharding.keeps(coordinates) {
            found.len = 0;
        }
        found
    }

    /// Returns the part of `region` that the rank at `owner` owns and the rank at `reader` reads from it.
    pub(crate) fn read(sharding: &Sharding, owner: &[usize], reader: &[usize], region: &Region) -> Self {
        let mut found = Self::of(sharding, owner, region);
        // A rank owns one digit per level of a dimension, so the owner of the first element owns all of them.
        if found.len > 0 && sharding.owner(reader, &found.first) != owner {
            found.len = 0;
        }
        found
    }

    /// Returns the part that the rank `owner` sends to the rank `reader` when an array is redistributed from `source` to
    /// `target`, and ranks send the elements that they own by `kept`, a part of those they hold; all are shardings of one shape.
    ///
    /// A rank sends to itself the elements that it keeps, and receives these from no other rank; of several owners
    /// of the rest, [`Sharding::owner`] selects the sender.
    pub(crate) fn between(source: &Sharding, kept: &Sharding, owner: usize, target: &Sharding, reader: usize) -> Self {
        let at = |sharding: &Sharding, rank| sharding.mesh().coordinates(rank);
        let (held, owned, wanted) = (at(source, owner), at(kept, owner), at(target, reader));
        if !source.keeps(&held) || !kept.keeps(&owned) || !target.keeps(&wanted) {
            return Self::default();
        }
        let along = |dim: usize| {
            let whole = 0..source.shape()[dim];
            let owned = kept.pieces(dim, &owned, whole.clone());
            // Their positions in the block that the owner holds.
            let owned = owned.flat_map(|(range, _)| source.pieces(dim, &held, range));
            let turns = [kept, source, target].map(|sharding| sharding.dims()[dim].turn());
            spans::group(common(owned, target.pieces(dim, &wanted, whole)), common_period(turns))
        };
        let shapes = [source.local_shape(&held), target.local_shape(&wanted)];
        let found = Self::new((0..source.shape().len()).map(along), shapes);
        let near = at(kept, reader);
        let elsewhere = |first: &[usize]| kept.owns(&near, first) || kept.owner(&near, first) != owned;
        if found.len == 0 || owner != reader && elsewhere(&found.first) { Self::default() } else { found }
    }

    /// Returns the subarray with the first global index and the spans of each dimension, in a block and a region of these shapes.
    fn new(along: impl IntoIterator<Item = (usize, Vec<Group>)>, [block, region]: [Vec<usize>; 2]) -> Self {
        let (first, dims): (_, Vec<_>) = along.into_iter().unzip();
        let count = |groups: &Vec<Group>| spans::last(groups).map_or(0, |span| span.end(Place::Packed));
        let counts: Vec<usize> = dims.iter().map(count).collect();
        let once = dims.iter().map(Vec::len).collect();
        Self { dims, once, len: counts.iter().product(), shapes: [block, region, counts], first }
    }

    /// Returns the global index of the first element; 0 along a dimension without elements.
    pub(crate) fn first(&self) -> &[usize] {
        &self.first
    }

    /// Returns the number of all elements of `place`.
    pub(crate) fn extent(&self, place: Place) -> usize {
        self.shapes[place as usize].iter().product()
    }

    /// Returns the number of distinct elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether an element has several places in the region.
    pub(crate) fn repeats(&self) -> bool {
        self.dims.iter().zip(&self.once).any(|(groups, once)| groups.len() > *once)
    }

    /// Returns whether it is one box of the owner's block.
    pub(crate) fn is_box(&self) -> bool {
        self.len == 0 || self.dims.iter().all(|groups| spans::count(groups) == 1)
    }

    /// Returns its box of global indices, if it is one box.
    pub(crate) fn region(&self) -> Option<Region> {
        if self.len == 0 {
            return Some(Region::empty(self.first.len()));
        }
        let ranges = self.first.iter().zip(&self.shapes[Place::Packed as usize]);
        let ranges = ranges.map(|(&first, &count)| first as i64..(first + count) as i64);
        self.is_box().then(|| Region::new(ranges))
    }

    /// Returns the range of `place` that holds the subarray and nothing else, in its order, if there is such a range.
    pub(crate) fn contiguous(&self, place: Place) -> Option<Range<usize>> {
        if self.len == 0 {
            return Some(0..0);
        }
        // Rows are contiguous if each dimension inside the first that has several indices is complete.
        let mut is_inner = false;
        let together = (0..self.dims.len()).all(|dim| {
            let fits = if is_inner { self.is_full(dim, place) } else { self.is_run(dim, place) };
            is_inner |= self.shapes[Place::Packed as usize][dim] > 1;
            fits
        });
        let start = self.start(place);
        together.then_some(start..start + self.len)
    }

    /// Returns the position of the first element in `place`; unspecified if the subarray is empty.
    pub(crate) fn start(&self, place: Place) -> usize {
        let first = |groups: &[Group]| spans::first(groups).map_or(0, |span| span.starts[place as usize]);
        let dims = self.dims.iter().zip(&self.shapes[place as usize]);
        dims.fold(0, |at, (groups, extent)| at * extent + first(groups))
    }

    /// The spans of a dimension, including those that repeat elements if the region is one of the places.
    fn along(&self, dim: usize, places: &[Place]) -> &[Group] {
        if places.contains(&Place::Region) { &self.dims[dim] } else { &self.dims[dim][..self.once[dim]] }
    }

    /// Whether the indices of a dimension are contiguous in `place`, in order and each once.
    fn is_run(&self, dim: usize, place: Place) -> bool {
        spans::is_run(self.along(dim, &[place]), place)
    }

    /// Whether the indices of a dimension are all those of `place`, in order.
    fn is_full(&self, dim: usize, place: Place) -> bool {
        let groups = self.along(dim, &[place]);
        let ends = spans::first(groups).zip(spans::last(groups));
        let of = |(first, last): (Span, Span)| first.starts[place as usize]..last.end(place);
        ends.is_some_and(|ends| of(ends) == (0..self.shapes[place as usize][dim])) && self.is_run(dim, place)
    }

    /// Returns the rows, in order.
    pub(crate) fn rows(&self, from: Place, to: Place) -> Rows<'_> {
        Rows::new(self, [from, to])
    }

    /// Copies the elements from their place in `source` to their place in `target`.
    pub(crate) fn copy<T: Element>(&self, from: Place, source: &[T], to: Place, target: &mut [T]) {
        self.rows(from, to).copy(usize::MAX, size_of::<T>(), cast_slice(source), cast_slice_mut(target));
    }

    /// Returns the elements in order: in place if they are contiguous in `place`, otherwise packed into
    /// `staging`, which grows if it is too short.
    pub(crate) fn packed<'a, T: Element>(
        &self,
        place: Place,
        data: &'a [T],
        staging: &'a mut Buffer<T>,
    ) -> Result<&'a [T]> {
        if self.contiguous(place).is_none() {
            staging.grow(self.len, "packed messages")?;
        }
        Ok(self.packed_in(place, data, staging))
    }

    /// As [`packed`](Self::packed), for a `staging` that is long enough.
    pub(crate) fn packed_in<'a, T: Element>(&self, place: Place, data: &'a [T], staging: &'a mut [T]) -> &'a [T] {
        if let Some(range) = self.contiguous(place) {
            return &data[range];
        }
        let packed = &mut staging[..self.len];
        self.copy(place, data, Place::Packed, packed);
        packed
    }

    /// Returns the parts that together make up all of it except `positions` of the region, a box that ends where spans do;
    /// they are to be copied from the block to the region.
    pub(crate) fn around(&self, positions: &[Range<usize>]) -> Vec<Self> {
        let inside = |dim: usize, span: &Span| positions[dim].contains(&span.starts[Place::Region as usize]);
        let mut part = self.clone();
        let parts = (0..self.dims.len()).map(|dim| {
            // The part outside along this dimension, and inside along those before it.
            part.keep(dim, |span| !inside(dim, span));
            let outside = part.clone();
            part.dims[dim].clone_from(&self.dims[dim]);
            part.keep(dim, |span| inside(dim, span));
            outside
        });
        parts.collect()
    }

    fn keep(&mut self, dim: usize, kept: impl Fn(&Span) -> bool) {
        spans::retain(&mut self.dims[dim], kept);
        self.once[dim] = self.dims[dim].len();
    }
}

/// Whether the parts are contiguous in `place`, in order, from its beginning.
pub(crate) fn in_order<'a>(parts: impl IntoIterator<Item = &'a Subarray>, place: Place) -> bool {
    let mut next = 0;
    parts.into_iter().all(|part| {
        let here = part.contiguous(place).is_some_and(|range| range.is_empty() || range.start == next);
        next += part.len();
        here
    })
}

/// Returns the least common multiple of these periods, if any are given.
fn common_period<const N: usize>(turns: [Option<usize>; N]) -> Option<usize> {
    let divisor = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    turns.into_iter().flatten().reduce(|a, b| (a / divisor(a, b)).saturating_mul(b))
}

/// The indices that two ascending lists of ranges share, each list with positions, as pieces.
fn common(
    block: impl Iterator<Item = (Range<usize>, usize)>,
    region: impl Iterator<Item = (Range<usize>, usize)>,
) -> impl Iterator<Item = (usize, [usize; 2], usize)> {
    let (mut block, mut region) = (block.peekable(), region.peekable());
    std::iter::from_fn(move || {
        loop {
            let ((a, a_at), (b, b_at)) = (block.peek()?, region.peek()?);
            let (start, end) = (a.start.max(b.start), a.end.min(b.end));
            let starts = || [a_at + start - a.start, b_at + start - b.start];
            let piece = (start < end).then(|| (start, starts(), end - start));
            if a.end <= b.end {
                block.next();
            } else {
                region.next();
            }
            if piece.is_some() {
                return piece;
            }
        }
    })
}

/// The indices of a region along a dimension, in order, each once: as ranges inside the array, with their positions in the region.
fn parts(region: &Region, dim: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
    let period = region.period(dim);
    region.runs(dim).flat_map(move |(run, first)| rounds(run, period).map(move |(within, at)| (within, first + at)))
}

/// The indices of a range, in order, each once: as ranges inside the array, with their positions in the range.
fn rounds(range: Range<i64>, period: Option<i64>) -> impl Iterator<Item = (Range<usize>, usize)> {
    let inside = |range: Range<i64>| range.start.max(0) as usize..range.end.max(0) as usize;
    let [first, second] = match period {
        None => {
            let within = inside(range.clone());
            // In a range that begins below 0, the first index inside the array is not at the first position.
            let at = (within.start as i64 - range.start).max(0) as usize;
            [(within, at), (0..0, 0)]
        }
        Some(period) => {
            let start = range.start.rem_euclid(period);
            let end = start + (range.end - range.start).min(period);
            let around = (end - period).max(0);
            [(inside(start..end.min(period)), 0), (inside(0..around), (period - start) as usize)]
        }
    };
    [first, second].into_iter().filter(|(within, _)| !within.is_empty())
}
