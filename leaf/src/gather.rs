//! Rows of operands: read in place where they are contiguous, gathered where they are not.

use super::order::{Loop, Order};
use super::rows::{CHUNK, Rows, Start};
use super::vector::GROUP;
use crate::view::Index;
use crate::{Element, Strided};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Rows that are gathered together if they are adjacent in memory.
pub(super) const ROWS: usize = 16;
/// Points of a row that are transposed at once.
const POINTS: usize = 8;

/// The operands along the two inner loops, and buffers for the rows of those that are not contiguous.
pub(super) struct Gather<'a, T> {
    operands: &'a [Strided<'a, T>],
    cross: Loop<'a>,
    inner: Loop<'a>,
    /// Where the rows of each operand are read.
    places: Places,
    gathered: &'a mut [T],
    /// The current row of each operand that is in parts.
    parts: SmallVec<[Parts; 10]>,
    /// The points of the current row, beyond its first one, at which some operand changes to another place.
    cuts: SmallVec<[usize; 16]>,
    /// Where each operand's current row starts.
    starts: SmallVec<[Start; 10]>,
}

/// Where the rows of each operand are read.
pub(super) type Places = SmallVec<[Place; 10]>;

/// Where the rows of an operand are read.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// In place.
    Contiguous,
    /// In a row filled with one element, which starts here; the cached offset of that element, if the row is filled already.
    Repeated(usize, Option<i64>),
    /// Gathered to a row that starts here, one row at a time.
    Row(usize),
    /// Gathered to rows that start here, [`ROWS`] rows at a time.
    Block(usize),
    /// Points whose index is in a box are read elsewhere, and points outside of the array have a fixed value; a row with points in several
    /// places is gathered.
    Parts {
        /// Where such a row is gathered.
        place: usize,
        /// The first of the strided cursors of the interior, if any, and of the indices.
        walks: usize,
    },
    /// In a row filled with growing numbers, which starts here.
    Numbers(usize),
}

/// The current row of an operand in parts.
#[derive(Clone)]
struct Parts {
    /// The offset of its first point in the operand's data, and in the data of its interior.
    offset: i64,
    interior: i64,
    /// The points that are read elsewhere; `0..0` for none.
    elsewhere: Range<usize>,
    /// The points whose index is inside of the array; `0..0` for none.
    inside: Range<usize>,
}

/// The indices that decide where a point of an operand is read: those of the interior, then those that may be outside.
pub(super) fn indices<'a, T>(operand: &'a Strided<'_, T>) -> impl Iterator<Item = &'a Index> {
    let interior = operand.interior.iter().flat_map(|interior| &interior.indices);
    interior.chain(operand.outside.iter().flat_map(|outside| &outside.indices))
}

/// Returns where the rows of the operands are read, then those of `numbers`, and how many elements of room they take.
pub(super) fn places<T>(operands: &[Strided<'_, T>], numbers: usize, order: &Order<'_>) -> (Places, usize) {
    let mut room = 0;
    let mut rows = |rows: usize| {
        room += rows * CHUNK;
        room - rows * CHUNK
    };
    let strides = order.cross.strides.iter().zip(order.inner.strides).skip(1);
    let mut walks = 1 + operands.len() + numbers;
    let places = operands.iter().zip(strides).map(|(operand, (&cross, &inner))| {
        if operand.interior.is_some() || operand.outside.is_some() {
            let first = walks;
            walks += usize::from(operand.interior.is_some()) + indices(operand).count();
            return Place::Parts { place: rows(1), walks: first };
        }
        match (cross, inner) {
            (_, 1) => Place::Contiguous,
            (_, 0) => Place::Repeated(rows(1), None),
            (1, _) => Place::Block(rows(ROWS)),
            _ => Place::Row(rows(1)),
        }
    });
    let mut places: Places = places.collect();
    places.extend((0..numbers).map(|nth| Place::Numbers(room + nth * CHUNK)));
    (places, room + numbers * CHUNK)
}

/// Whether the elements of all operands are contiguous along the inner loop, if only in two places: then rows between [`cuts`](Gather::cut)
/// are read in place, and may be of any length.
pub(super) fn are_in_place<T>(operands: &[Strided<'_, T>], places: &Places, order: &Order<'_>) -> bool {
    let consecutive = |of: usize| order.inner.strides[of] == 1;
    places.iter().enumerate().all(|(i, place)| match place {
        Place::Contiguous => true,
        Place::Parts { walks, .. } => {
            consecutive(i + 1) && operands[i].interior.as_ref().is_none_or(|_| consecutive(*walks))
        }
        Place::Repeated(..) | Place::Row(_) | Place::Block(_) | Place::Numbers(_) => false,
    })
}

impl<'a, T: Element> Gather<'a, T> {
    /// Returns the operands, whose rows are read at [`places`], with that much room to gather them.
    pub(super) fn new<'l: 'a>(
        operands: &'a [Strided<'a, T>],
        order: &Order<'l>,
        places: Places,
        gathered: &'a mut [T],
    ) -> Self {
        let parts = smallvec![Parts { offset: 0, interior: 0, elsewhere: 0..0, inside: 0..0 }; operands.len()];
        let starts = smallvec![Start::Data(0); places.len()];
        let cuts = SmallVec::new();
        Self { operands, cross: order.cross, inner: order.inner, places, gathered, parts, cuts, starts }
    }

    /// The offset of the cursor number `of` at a point of a row, and its stride to the next point.
    fn walk(&self, of: usize, at: &[i64], row: usize, point: usize) -> (i64, i64) {
        let stride = self.inner.strides[of];
        (at[of] + row as i64 * self.cross.strides[of] + point as i64 * stride, stride)
    }

    /// Begins a row; to be called before its [`rows`](Self::rows).
    pub(super) fn begin(&mut self, at: &[i64], row: usize) {
        self.cuts.clear();
        for (i, operand) in self.operands.iter().enumerate() {
            let Place::Parts { walks: first, .. } = self.places[i] else { continue };
            let count = self.inner.count;
            let points = |indices: &[Index], walks: usize| {
                let points = indices.iter().enumerate().fold(0..count, |points, (dim, index)| {
                    let (first, step) = self.walk(walks + dim, at, row, 0);
                    let here = points_within(first, step, &index.range, count);
                    points.start.max(here.start)..points.end.min(here.end)
                });
                if points.is_empty() { 0..0 } else { points }
            };
            let (elsewhere, walks) = match &operand.interior {
                Some(interior) => (points(&interior.indices, first + 1), first + 1 + interior.indices.len()),
                None => (0..0, first),
            };
            let inside = operand.outside.as_ref().map_or(0..count, |outside| points(&outside.indices, walks));
            let interior = if operand.interior.is_some() { self.walk(first, at, row, 0).0 } else { 0 };
            for cut in [elsewhere.start, elsewhere.end, inside.start, inside.end] {
                if cut > 0 && cut < count && !self.cuts.contains(&cut) {
                    self.cuts.push(cut);
                }
            }
            self.parts[i] = Parts { offset: self.walk(i + 1, at, row, 0).0, interior, elsewhere, inside };
        }
    }

    /// Where a piece of the row ends that begins at `start`, of the points up to `end`: one of whole groups that is read in place, or a
    /// short one that is gathered, since some operand of it is read in several places or has a fixed value.
    pub(super) fn cut(&self, start: usize, end: usize) -> usize {
        let cut = self.cuts.iter().fold(end, |end, &cut| if cut > start { end.min(cut) } else { end });
        let end = match cut < end {
            // Groups take no longer than single points.
            true if cut - start < GROUP => end.min(start + GROUP),
            true => cut - (cut - start) % GROUP,
            false => end,
        };
        let is_value =
            |i: usize| matches!(self.places[i], Place::Parts { .. }) && !self.parts[i].inside.contains(&start);
        if (0..self.operands.len()).any(is_value) { end.min(start + CHUNK) } else { end }
    }

    /// Gathers the adjacent rows of `block`, at the points of `chunk`; `at` are the offsets of the output and of the operands at the first
    /// point.
    pub(super) fn fill(&mut self, at: &[i64], block: &Range<usize>, chunk: &Range<usize>) {
        if self.cross.count == 1 {
            return;
        }
        for (i, operand) in self.operands.iter().enumerate() {
            if let Place::Block(place) = self.places[i] {
                let stride = self.inner.strides[i + 1];
                let first = at[i + 1] + block.start as i64 + chunk.start as i64 * stride;
                let rows = &mut self.gathered[place..][..ROWS * CHUNK];
                transpose(operand.data, first, stride, rows, [block.len(), chunk.len()]);
            }
        }
    }

    /// The operands at the points `chunk` of the row `row`, which has begun, in the block that starts with the row `first`.
    pub(super) fn rows(&mut self, at: &[i64], row: usize, first: usize, chunk: &Range<usize>) -> Rows<'_, T> {
        for (i, place) in self.places.iter().enumerate().skip(self.operands.len()) {
            let &Place::Numbers(place) = place else { continue };
            let (first, step) = self.walk(i + 1, at, row, chunk.start);
            for (point, value) in self.gathered[place..][..chunk.len()].iter_mut().enumerate() {
                let number = T::from(first + point as i64 * step);
                *value = number.expect("a checked kernel's indices fit its elements; this is a bug in polyshard");
            }
            self.starts[i] = Start::Gathered(place);
        }
        for (i, operand) in self.operands.iter().enumerate() {
            let (offset, stride) = self.walk(i + 1, at, row, chunk.start);
            self.starts[i] = match &mut self.places[i] {
                Place::Numbers(_) => unreachable!("numbers come after operands; this is a bug in polyshard"),
                Place::Contiguous => Start::Data(offset as usize),
                Place::Repeated(place, filled) => {
                    // Filled only once while the element stays the same.
                    if filled.replace(offset) != Some(offset) {
                        let width = self.inner.count.min(CHUNK);
                        self.gathered[*place..][..width].fill(operand.data[offset as usize]);
                    }
                    Start::Gathered(*place)
                }
                Place::Row(place) => {
                    gather(operand.data, offset, stride, &mut self.gathered[*place..][..chunk.len()]);
                    Start::Gathered(*place)
                }
                Place::Block(place) => Start::Gathered(*place + (row - first) * CHUNK),
                &mut Place::Parts { place, walks } => self.parts_of(i, operand, [place, walks], chunk),
            };
        }
        Rows { operands: self.operands, starts: &self.starts, gathered: self.gathered, len: chunk.len() }
    }

    /// Where the row of the operand `i`, which is in parts, starts at the points `chunk`: gathered to `place` if they are in several
    /// places.
    fn parts_of(
        &mut self,
        i: usize,
        operand: &Strided<'_, T>,
        [place, walks]: [usize; 2],
        chunk: &Range<usize>,
    ) -> Start {
        let Parts { offset, interior: start, elsewhere, inside } = &self.parts[i];
        let (stride, step) = (self.inner.strides[i + 1], self.inner.strides.get(walks).copied());
        let covered = |points: &Range<usize>| points.start <= chunk.start && chunk.end <= points.end;
        let missed = |points: &Range<usize>| points.end <= chunk.start || chunk.end <= points.start;
        if step == Some(1) && covered(elsewhere) {
            return Start::Interior((start + chunk.start as i64) as usize);
        }
        if stride == 1 && missed(elsewhere) && covered(inside) {
            return Start::Data((offset + chunk.start as i64) as usize);
        }
        let position = |point: usize| point.clamp(chunk.start, chunk.end) - chunk.start;
        let within = |points: &Range<usize>| position(points.start)..position(points.end);
        let inside = within(inside);
        let inside = if inside.is_empty() { 0..0 } else { inside };
        let points = within(elsewhere);
        let points = if points.is_empty() { inside.start..inside.start } else { points };
        let row = &mut self.gathered[place..][..chunk.len()];
        let mut part = |data: &[T], start: i64, stride: i64, points: Range<usize>| {
            let first = (chunk.start + points.start) as i64;
            gather(data, start + first * stride, stride, &mut row[points]);
        };
        part(operand.data, *offset, stride, inside.start..points.start);
        if let (Some(interior), Some(step)) = (&operand.interior, step) {
            part(interior.data, *start, step, points.clone());
        }
        part(operand.data, *offset, stride, points.end..inside.end);
        if let Some(outside) = &operand.outside {
            row[..inside.start].fill(outside.value);
            row[inside.end..].fill(outside.value);
        }
        Start::Gathered(place)
    }
}

/// Reads to `row[p]` the element at `first + p * stride`.
fn gather<T: Element>(data: &[T], first: i64, stride: i64, row: &mut [T]) {
    if stride == 1 && !row.is_empty() {
        row.copy_from_slice(&data[first as usize..][..row.len()]);
        return;
    }
    for (point, value) in row.iter_mut().enumerate() {
        *value = data[(first + point as i64 * stride) as usize];
    }
}

/// The points, of `count`, at which an index that starts at `first` and moves by `step` is in the range.
fn points_within(first: i64, step: i64, range: &Range<i64>, count: usize) -> Range<usize> {
    // The first point at which an index that grows is at least `bound`.
    let reaches = |bound: i64, first: i64| -(first - bound).div_euclid(step.abs());
    let points = match step {
        // Most rows take this arm, and a division is slow.
        1 => range.start - first..range.end - first,
        0 if range.contains(&first) => 0..count as i64,
        0 => 0..0,
        2.. => reaches(range.start, first)..reaches(range.end, first),
        // Mirrored, it grows.
        _ => reaches(1 - range.end, -first)..reaches(1 - range.start, -first),
    };
    let clamp = |point: i64| point.clamp(0, count as i64) as usize;
    clamp(points.start)..clamp(points.end)
}

/// Writes to `rows[r][p]`, rows being [`CHUNK`] apart, the element at `first + r + p * stride`.
fn transpose<T: Element>(data: &[T], first: i64, stride: i64, rows: &mut [T], [count, points]: [usize; 2]) {
    let line = |point: usize| &data[(first + point as i64 * stride) as usize..][..count];
    let whole = points - points % POINTS;
    if count == ROWS {
        for start in (0..whole).step_by(POINTS) {
            let lines: [&[T; ROWS]; POINTS] =
                std::array::from_fn(|p| line(start + p).first_chunk().expect("a line has this length"));
            for r in 0..ROWS {
                let points: [T; POINTS] = std::array::from_fn(|p| lines[p][r]);
                rows[r * CHUNK + start..][..POINTS].copy_from_slice(&points);
            }
        }
    }
    for p in if count == ROWS { whole } else { 0 }..points {
        for (r, &value) in line(p).iter().enumerate() {
            rows[r * CHUNK + p] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_those_whose_index_is_in_the_range() {
        for first in -6..7 {
            for step in -3..4 {
                for start in -5..6 {
                    for len in 0..5 {
                        let range = start..start + len;
                        let found = points_within(first, step, &range, 7);
                        let inside = |point: &usize| range.contains(&(first + *point as i64 * step));
                        let expected: Vec<_> = (0..7).filter(inside).collect();
                        assert_eq!(found.collect::<Vec<_>>(), expected, "{first} + {step} in {range:?}");
                    }
                }
            }
        }
    }
}
