//! The rows of a subarray: elements that are contiguous in two places, and copying them.
//!
//! Positions of rows are in elements, buffers are bytes: one copy of this code serves all element types. Packed data are
//! sent at once and stay in the cache; copies and unpacked data bypass it if the target is large.

use super::spans::{self, Cursor, Group, Span};
use super::{Copier, Place, Subarray};
use crate::comm::{Layout, LayoutLevel};
use crate::region::row_major;
use smallvec::SmallVec;

/// Elements that are contiguous in both places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The position of the first in the source.
    pub(crate) from: usize,
    /// The position of the first in the target.
    pub(crate) to: usize,
    /// The number of elements.
    pub(crate) len: usize,
}

/// The rows of a subarray, in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Rows<'a> {
    places: [Place; 2],
    /// Outermost first. Dimensions that are complete in both places, as are all inside them, are merged into the next outer
    /// one: an index of the last one stands for a run of several elements.
    dims: SmallVec<[Dim<'a>; 4]>,
    /// The next span of the last dimension.
    next: Cursor,
    /// The rest of a row that was cut.
    rest: Option<Row>,
    /// The number of elements passed so far.
    gone: usize,
    done: bool,
}

#[derive(Clone, Debug)]
struct Dim<'a> {
    groups: &'a [Group],
    /// Elements between neighbours along this dimension, in each place.
    strides: [usize; 2],
    /// The offset given by the indices of the dimensions outside it.
    base: [usize; 2],
    /// The span, its start in both places, its length, and the index inside it; unused for the last dimension.
    cursor: Cursor,
    starts: [usize; 2],
    len: usize,
    index: usize,
}

impl Dim<'_> {
    /// Moves to the first index of a span.
    fn enter(&mut self, cursor: Cursor, places: [Place; 2]) {
        let span = self.groups[cursor.group].span(cursor.turn, cursor.nth);
        (self.cursor, self.index, self.len) = (cursor, 0, span.len);
        self.starts = places.map(|place| span.starts[place as usize]);
    }
}

impl<'a> Rows<'a> {
    pub(super) fn new(subarray: &'a Subarray, places: [Place; 2]) -> Self {
        let ndim = subarray.dims.len();
        // An array of no dimensions has one row of one element.
        let rest = (ndim == 0 && subarray.len == 1).then_some(Row { from: 0, to: 0, len: 1 });
        let whole = |&dim: &usize| places.iter().all(|&place| subarray.is_full(dim, place));
        let some = subarray.len > 0 && subarray.dims.iter().all(|groups| !groups.is_empty());
        let outer = if some { ndim - (1..ndim).rev().take_while(whole).count() } else { 0 };
        let strides = places.map(|place| row_major(&subarray.shapes[place as usize]));
        let dims = (0..outer).map(|dim| Dim {
            groups: subarray.along(dim, &places),
            strides: [strides[0][dim], strides[1][dim]],
            base: [0; 2],
            cursor: Cursor::default(),
            starts: [0; 2],
            len: 0,
            index: 0,
        });
        let mut rows = Self { places, dims: dims.collect(), next: Cursor::default(), rest, gone: 0, done: outer == 0 };
        rows.dims.iter_mut().for_each(|dim| dim.enter(Cursor::default(), places));
        rows.rebase(0);
        rows
    }

    /// Returns the layout of the elements, of `element` bytes each, in the first of the two places, or in the second.
    pub(crate) fn layout(&self, side: usize, element: usize) -> Layout {
        assert!(
            self.gone == 0 && !self.dims.is_empty(),
            "rows are laid out from the first on; this is a bug in polyshard"
        );
        let place = self.places[side] as usize;
        let level = |dim: &Dim<'_>| LayoutLevel {
            runs: spans::spans(dim.groups).map(|span| span.starts[place]..span.starts[place] + span.len).collect(),
            stride: dim.strides[side] * element,
        };
        Layout { levels: self.dims.iter().map(level).collect() }
    }

    /// Calls `f` with the next rows, up to `elements` elements in total; the last row is cut if need be.
    pub(crate) fn next(&mut self, elements: usize, mut f: impl FnMut(Row)) {
        let mut left = elements;
        if let Some(row) = self.rest.take() {
            let row = self.cut(row, left);
            left -= row.len;
            f(row);
        }
        let [from, to] = self.places.map(|place| place as usize);
        // Rows may be single elements, so the inner loop computes no more than it needs.
        while left > 0 && !self.done {
            let Some(&Dim { groups, strides, base, .. }) = self.dims.last() else { return };
            let row = |base: [usize; 2], span: &Span| {
                let [from, to] = [base[0] + span.starts[from] * strides[0], base[1] + span.starts[to] * strides[1]];
                Row { from, to, len: span.len * strides[0] }
            };
            // Most subarrays are boxes, which have one row per outer index.
            if let [Group { pattern, turns: 1, .. }] = groups
                && let [span] = &pattern[..]
            {
                let row = self.cut(row(base, span), left);
                left -= row.len;
                f(row);
                self.step();
                continue;
            }
            let Cursor { mut group, mut turn, mut nth } = self.next;
            'rows: while let Some(Group { pattern, steps, turns }) = groups.get(group) {
                let steps = [steps[from] * strides[0], steps[to] * strides[1]];
                let mut base = [base[0] + turn * steps[0], base[1] + turn * steps[1]];
                if let [span] = &pattern[..] {
                    let Row { mut from, mut to, len } = row(base, span);
                    while turn < *turns {
                        if left == 0 {
                            break 'rows;
                        }
                        let row = self.cut(Row { from, to, len }, left);
                        left -= row.len;
                        (turn, from, to) = (turn + 1, from + steps[0], to + steps[1]);
                        f(row);
                    }
                }
                while turn < *turns {
                    for span in &pattern[nth..] {
                        if left == 0 {
                            break 'rows;
                        }
                        let row = self.cut(row(base, span), left);
                        left -= row.len;
                        nth += 1;
                        f(row);
                    }
                    base = [base[0] + steps[0], base[1] + steps[1]];
                    (turn, nth) = (turn + 1, 0);
                }
                (group, turn) = (group + 1, 0);
            }
            if group == groups.len() {
                self.next = Cursor::default();
                self.step();
            } else {
                self.next = Cursor { group, turn, nth };
            }
        }
        self.gone += elements - left;
    }

    /// Copies the next elements, `elements` of them or all that remain, of `element` bytes each. A packed side holds these elements only.
    pub(crate) fn copy(&mut self, elements: usize, element: usize, source: &[u8], target: &mut [u8]) {
        let copier = match self.places[1] {
            // Streaming stores would send packed data to memory and back.
            Place::Packed => Copier::ORDINARY,
            Place::Block | Place::Region => Copier::new(target.len()),
        };
        let [before, behind] = self.places.map(|place| if place == Place::Packed { self.gone } else { 0 });
        self.next(elements, |Row { from, to, len }| {
            let [from, to, len] = [from - before, to - behind, len].map(|elements| elements * element);
            copier.put(&source[from..from + len], &mut target[to..to + len]);
        });
        copier.finish();
    }

    /// Returns the first `left` elements of a row, if it has more, and keeps the rest.
    fn cut(&mut self, row: Row, left: usize) -> Row {
        if row.len > left {
            self.rest = Some(Row { from: row.from + left, to: row.to + left, len: row.len - left });
        }
        Row { len: row.len.min(left), ..row }
    }

    /// Moves to the next indices of all dimensions but the last.
    fn step(&mut self) {
        for dim in (0..self.dims.len() - 1).rev() {
            let places = self.places;
            let outer = &mut self.dims[dim];
            outer.index += 1;
            if outer.index < outer.len {
                return self.rebase(dim);
            }
            let next = outer.cursor.next(outer.groups);
            if next.group < outer.groups.len() {
                outer.enter(next, places);
                return self.rebase(dim);
            }
            outer.enter(Cursor::default(), places);
        }
        self.done = true;
    }

    /// Updates the bases of the dimensions inside `dim`.
    fn rebase(&mut self, dim: usize) {
        for inner in dim + 1..self.dims.len() {
            let &Dim { strides, base, starts, index, .. } = &self.dims[inner - 1];
            self.dims[inner].base = [0, 1].map(|side| base[side] + (starts[side] + index) * strides[side]);
        }
    }
}
