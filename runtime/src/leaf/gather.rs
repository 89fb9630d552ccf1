//! Rows of operands: read in place where they are contiguous, gathered where they are not.

use super::Rows;
use super::order::Order;
use super::pointwise::CHUNK;
use super::walk::Loop;
use crate::{Element, Strided};
use std::ops::Range;

/// Rows that are gathered together where they lie side by side in memory.
pub(super) const ROWS: usize = 16;
/// Points of a row that are transposed at once.
const POINTS: usize = 8;

/// The operands along the two inner loops, and room for the rows of those that are not contiguous.
pub(super) struct Gather<'a, T> {
    operands: &'a [Strided<'a, T>],
    cross: &'a Loop,
    inner: &'a Loop,
    /// Where the rows of each operand are in `gathered`, and how.
    places: Vec<Place>,
    gathered: Vec<T>,
    /// Where each operand's current row starts, in its data or in `gathered`.
    starts: Vec<usize>,
}

/// How the rows of an operand are had.
#[derive(Clone, Copy)]
enum Place {
    /// They are read where they lie.
    Contiguous,
    /// One element fills the row, which starts here; the element's offset if it is filled already.
    Repeated(usize, Option<i64>),
    /// The row is gathered to here, one at a time.
    Row(usize),
    /// Rows are gathered to here, [`ROWS`] at a time.
    Block(usize),
}

impl<'a, T: Element> Gather<'a, T> {
    pub(super) fn new(operands: &'a [Strided<'a, T>], order: &'a Order) -> Self {
        let (cross, inner) = (&order.cross, &order.inner);
        let mut room = 0;
        let mut rows = |rows: usize| {
            room += rows * CHUNK;
            room - rows * CHUNK
        };
        let strides = cross.strides.iter().zip(&inner.strides).skip(1);
        let places = strides.map(|(&cross, &inner)| match (cross, inner) {
            (_, 1) => Place::Contiguous,
            (_, 0) => Place::Repeated(rows(1), None),
            (1, _) => Place::Block(rows(ROWS)),
            _ => Place::Row(rows(1)),
        });
        let places = places.collect();
        Self { operands, cross, inner, places, gathered: vec![T::ZERO; room], starts: vec![0; operands.len()] }
    }

    /// Gathers the rows of `block` that lie side by side, at the points of `chunk`; `at` are the offsets of the output
    /// and of the operands at the first point.
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

    /// The operands at the points `chunk` of the row `row`, in the block that starts with the row `first`.
    pub(super) fn rows(&mut self, at: &[i64], row: usize, first: usize, chunk: &Range<usize>) -> Rows<'_, T> {
        for (i, operand) in self.operands.iter().enumerate() {
            let stride = self.inner.strides[i + 1];
            let offset = at[i + 1] + row as i64 * self.cross.strides[i + 1] + chunk.start as i64 * stride;
            self.starts[i] = match &mut self.places[i] {
                Place::Contiguous => offset as usize,
                Place::Repeated(place, filled) => {
                    // Written out once for as long as the element stays the same.
                    if filled.replace(offset) != Some(offset) {
                        let width = self.inner.count.min(CHUNK);
                        self.gathered[*place..][..width].fill(operand.data[offset as usize]);
                    }
                    *place
                }
                Place::Row(place) => {
                    let row = &mut self.gathered[*place..][..chunk.len()];
                    for (j, value) in row.iter_mut().enumerate() {
                        *value = operand.data[(offset + j as i64 * stride) as usize];
                    }
                    *place
                }
                Place::Block(place) => *place + (row - first) * CHUNK,
            };
        }
        Rows {
            operands: self.operands,
            strides: &self.inner.strides[1..],
            starts: &self.starts,
            gathered: &self.gathered,
            len: chunk.len(),
        }
    }
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
