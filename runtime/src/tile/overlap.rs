//! Overlaps: the part of a region that one rank's shard holds, and where it is stored.
//!
//! Both ends of a message compute the same overlap from the region and the sharding, and put its elements in
//! one order, row-major by their first place in the region; so no message carries indices. An overlap is a product
//! of spans per dimension and is never listed element by element: it is copied by whole rows.
//!
//! A region that goes round the end of its array is one piece more per round. What it holds more than once is in a
//! message once, and is copied to each of its places. A region of blocks is a piece per block, which are one piece where
//! they lie together in the shard as they do in the region.

use crate::layout::Sharding;
use crate::memory::Buffer;
use crate::region::row_major;
use crate::{Element, Region, Result};
use std::ops::Range;

/// The part of a region that a shard holds.
///
/// All of it has the same digits, hence one owner for a given reader, as a rank owns one digit per level of a dimension.
#[derive(Clone, Debug)]
pub(crate) struct Overlap {
    /// Per dimension, runs of elements that are consecutive in the block and the region.
    dims: Vec<Vec<Span>>,
    /// The shapes of the three places; `shapes[Packed]` is the overlap's own.
    shapes: [Vec<usize>; 3],
    /// The global index of the first element.
    first: Vec<usize>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Span {
    /// The position of the first index in each of the three places.
    starts: [usize; 3],
    len: usize,
}

/// Where the elements of an overlap are; all three are dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the block of the rank that owns them.
    Block = 0,
    /// In a buffer that has the whole region.
    Region = 1,
    /// In a message that has nothing else.
    Packed = 2,
}

impl Overlap {
    /// Returns what the rank at `coordinates` owns of `region`.
    pub(crate) fn of(sharding: &Sharding, coordinates: &[usize], region: &Region) -> Self {
        let ndim = sharding.shape().len();
        assert_eq!(region.ndim(), ndim, "region {region} of an array of {ndim} dimensions; this is a bug of polyshard");
        let mut dims: Vec<Vec<Span>> = Vec::with_capacity(ndim);
        let mut counts = Vec::with_capacity(ndim);
        let mut first = Vec::with_capacity(ndim);
        for (dim, range) in region.ranges().iter().enumerate() {
            let mut spans: Vec<Span> = Vec::new();
            let mut packed = 0;
            for (within, at) in parts(region, dim) {
                for (piece, local) in sharding.pieces(dim, coordinates, within.clone()) {
                    let starts = [local, at + piece.start - within.start, packed];
                    packed += piece.len();
                    match spans.last_mut() {
                        // Cyclic blocks of an axis of one rank, say, are neighbours in every place.
                        Some(last)
                            if last.starts[0] + last.len == starts[0] && last.starts[1] + last.len == starts[1] =>
                        {
                            last.len += piece.len();
                        }
                        _ => spans.push(Span { starts, len: piece.len() }),
                    }
                }
            }
            let index = |span: &Span| region.index(dim, span.starts[1]);
            let index = |span: &Span| region.period(dim).map_or(index(span), |period| index(span).rem_euclid(period));
            first.push(spans.first().map_or(0, |span| index(span) as usize));
            if let Some(period) = region.period(dim) {
                repeat(&mut spans, period as usize, (range.end - range.start) as usize);
            }
            dims.push(spans);
            counts.push(packed);
        }
        let none = region.is_empty() || !sharding.keeps(coordinates);
        let len = if none { 0 } else { counts.iter().product() };
        let shapes = [sharding.local_shape(coordinates), region.shape(), counts];
        Self { dims, shapes, first, len }
    }

    /// Returns what the rank at `owner` owns of `region` and the rank at `reader` reads from it.
    pub(crate) fn read(sharding: &Sharding, owner: &[usize], reader: &[usize], region: &Region) -> Self {
        let mut overlap = Self::of(sharding, owner, region);
        if overlap.len > 0 && sharding.owner(reader, &overlap.first) != owner {
            overlap.len = 0;
        }
        overlap
    }

    /// Returns the global index of the first element; 0 along a dimension that has none.
    pub(crate) fn first(&self) -> &[usize] {
        &self.first
    }

    /// Returns the number of different elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it is one box of the owner's block.
    pub(crate) fn is_box(&self) -> bool {
        self.len == 0 || self.dims.iter().all(|spans| spans.len() == 1)
    }

    /// Returns the range of `place` that holds the overlap and nothing else, if there is one.
    pub(crate) fn contiguous(&self, place: Place) -> Option<Range<usize>> {
        if self.len == 0 {
            return Some(0..0);
        }
        if !self.is_box() {
            return None;
        }
        let (shape, counts) = (&self.shapes[place as usize], &self.shapes[Place::Packed as usize]);
        // Rows follow one another if each dimension inside of the first that has several is there in full.
        let outermost = counts.iter().position(|&count| count > 1).unwrap_or(counts.len());
        let full = |dim: usize| counts[dim] == shape[dim];
        if !(outermost + 1..counts.len()).all(full) {
            return None;
        }
        let start = self.start(place);
        Some(start..start + self.len)
    }

    /// Returns the position of the first element in `place`, if there is one.
    pub(crate) fn start(&self, place: Place) -> usize {
        let starts = self.dims.iter().map(|spans| spans.first().map_or(0, |span| span.starts[place as usize]));
        starts.zip(row_major(&self.shapes[place as usize])).map(|(start, stride)| start * stride).sum()
    }

    /// Calls `copy` with the positions in `from` and in `to` and the length of each row, in row-major order.
    pub(crate) fn rows(&self, from: Place, to: Place, mut copy: impl FnMut(usize, usize, usize)) {
        if self.len == 0 {
            return;
        }
        if let (Some(from), Some(to)) = (self.contiguous(from), self.contiguous(to)) {
            return copy(from.start, to.start, self.len);
        }
        let places = [from as usize, to as usize];
        let strides = places.map(|place| row_major(&self.shapes[place]));
        self.walk(0, [0, 0], places, &strides, &mut copy);
    }

    fn walk(
        &self,
        dim: usize,
        at: [usize; 2],
        places: [usize; 2],
        strides: &[Vec<usize>; 2],
        copy: &mut impl FnMut(usize, usize, usize),
    ) {
        let last = dim + 1 == self.dims.len();
        for span in &self.dims[dim] {
            let start = |side: usize| at[side] + span.starts[places[side]] * strides[side][dim];
            let start = [start(0), start(1)];
            if last {
                copy(start[0], start[1], span.len);
                continue;
            }
            for i in 0..span.len {
                let at = [start[0] + i * strides[0][dim], start[1] + i * strides[1][dim]];
                self.walk(dim + 1, at, places, strides, copy);
            }
        }
    }

    /// Copies the overlap from its place in `source` to its place in `target`, by whole rows.
    pub(crate) fn copy<T: Copy>(&self, from: Place, source: &[T], to: Place, target: &mut [T]) {
        self.rows(from, to, |from, to, len| target[to..to + len].copy_from_slice(&source[from..from + len]));
    }

    /// As [`copy`](Self::copy) from the block to the region, but for what is at these positions of the region.
    pub(crate) fn copy_around<T: Copy>(&self, source: &[T], target: &mut [T], interior: &[Range<usize>]) {
        let Some((columns, outer)) = interior.split_last().filter(|_| self.len > 0) else { return };
        let places = [Place::Block as usize, Place::Region as usize];
        let strides = places.map(|place| row_major(&self.shapes[place]));
        self.walk(0, [0, 0], places, &strides, &mut |from, to, len| {
            let (mut column, mut inside) = (to, true);
            for (range, &stride) in outer.iter().zip(&strides[1]) {
                inside &= range.contains(&(column / stride));
                column %= stride;
            }
            let row = to - column;
            let hidden = if inside { row + columns.start..row + columns.end } else { to..to };
            for part in [to..(to + len).min(hidden.start), to.max(hidden.end)..to + len] {
                if part.start < part.end {
                    let from = from + part.start - to;
                    target[part.clone()].copy_from_slice(&source[from..from + part.len()]);
                }
            }
        });
    }

    /// Returns the overlap's elements in order: those in `place` itself if they follow one another there, else
    /// packed into `staging`, which is made longer if it is too short.
    pub(crate) fn packed<'a, T: Element>(
        &self,
        place: Place,
        data: &'a [T],
        staging: &'a mut Buffer<T>,
    ) -> Result<&'a [T]> {
        if let Some(range) = self.contiguous(place) {
            return Ok(&data[range]);
        }
        staging.grow(self.len, "what is packed to be sent")?;
        self.copy(place, data, Place::Packed, staging);
        Ok(&staging[..self.len])
    }
}

/// The indices of a region along a dimension, in order, each once: as ranges inside of the array, with their positions in
/// the region.
fn parts(region: &Region, dim: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
    let period = region.period(dim);
    region.runs(dim).flat_map(move |(run, first)| rounds(run, period).map(move |(within, at)| (within, first + at)))
}

/// The indices of a range, in order, each once: as ranges inside of the array, with their positions in the range.
fn rounds(range: Range<i64>, period: Option<i64>) -> impl Iterator<Item = (Range<usize>, usize)> {
    let inside = |range: Range<i64>| range.start.max(0) as usize..range.end.max(0) as usize;
    let [first, second] = match period {
        None => {
            let within = inside(range.clone());
            // Of what begins below 0, the first index is not the first position.
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

/// Adds the places where what `spans` holds of the first `period` positions is again in `len` positions.
fn repeat(spans: &mut Vec<Span>, period: usize, len: usize) {
    let once = spans.clone();
    for round in (period..len).step_by(period) {
        for Span { starts: [block, region, packed], len: of } in &once {
            let start = region + round;
            if start < len {
                spans.push(Span { starts: [*block, start, *packed], len: (*of).min(len - start) });
            }
        }
    }
}
