//! Pieces: the elements that one rank hands to another, and where they are in the tiles of both.
//!
//! Both ends of a message compute the same piece and put its elements in one order, row-major by global
//! index; so no message carries indices. A piece is a product of spans per dimension, whatever the shardings
//! are, and is never listed element by element. It is copied by whole rows, as long as the two tiles allow:
//! dimensions that lie together in both are made one.
//!
//! ```text
//! 8 rows of 6 on 2 ranks, rows to columns; the piece from rank 0 to rank 1 is 4 rows of 3:
//!
//! rank 0 before              rank 1 after
//! . . . a b c                a b c
//! . . . d e f                d e f
//! . . . g h i                g h i
//! . . . j k l                j k l
//!                            . . .   (what rank 1 had already)
//! ```
//!
//! Nothing here communicates, and nothing knows the elements' type: positions and lengths are in elements.

use crate::layout::Sharding;
use crate::region::row_major;
use std::ops::Range;

/// Which tile of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The tile of the rank that has the elements.
    Source = 0,
    /// The tile of the rank that gets them.
    Target = 1,
}

/// Elements that one tile has and another gets.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    /// Outermost first; empty for at most one row.
    dims: Vec<Dim>,
    /// The number of elements.
    len: usize,
    /// Where all of it is, on a side on which it lies together.
    together: [Option<usize>; 2],
}

#[derive(Clone, Debug)]
struct Dim {
    /// Elements between neighbours along this dimension, on each side.
    strides: [usize; 2],
    spans: Vec<Span>,
}

/// Indices that follow one another on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// The first index' position along the dimension, on each side.
    starts: [usize; 2],
    len: usize,
}

impl Piece {
    /// Returns what the rank `owner` hands to the rank `reader` when an array that is laid out by `source` becomes laid out
    /// by `target`, and ranks hand out what they own by `kept`, a part of what they hold; all are shardings of one shape.
    ///
    /// A rank hands to itself what it keeps. What a reader has, it gets from nobody else; of several owners of
    /// the rest, [`Sharding::owner`] says which one it gets it from.
    pub(super) fn between(source: &Sharding, kept: &Sharding, owner: usize, target: &Sharding, reader: usize) -> Self {
        let at = |sharding: &Sharding, rank| sharding.mesh().coordinates(rank);
        let (held, owned, wanted) = (at(source, owner), at(kept, owner), at(target, reader));
        if !source.keeps(&held) || !kept.keeps(&owned) || !target.keeps(&wanted) {
            return Self::default();
        }
        let ndim = source.shape().len();
        let mut dims = Vec::with_capacity(ndim);
        for dim in 0..ndim {
            let whole = 0..source.shape()[dim];
            let owned = kept.pieces(dim, &owned, whole.clone());
            // Where they are in the tile that the owner holds.
            let owned = owned.flat_map(|(range, _)| source.pieces(dim, &held, range));
            let spans = common(owned, target.pieces(dim, &wanted, whole));
            if spans.is_empty() {
                return Self::default();
            }
            dims.push(spans);
        }
        // A rank owns one digit per dimension, so whoever owns the first of these elements owns all of them.
        let first: Vec<usize> = dims.iter().map(|spans| spans[0].0).collect();
        if owner != reader {
            let near = at(kept, reader);
            if kept.owns(&near, &first) || kept.owner(&near, &first) != owned {
                return Self::default();
            }
        }
        let dims = dims.into_iter().map(|spans| spans.into_iter().map(|(_, span)| span).collect()).collect();
        Self::new(dims, [&source.local_shape(&held), &target.local_shape(&wanted)])
    }

    /// Returns the piece with these spans in tiles of these shapes; no dimension without a span.
    fn new(spans: Vec<Vec<Span>>, shapes: [&[usize]; 2]) -> Self {
        let strides = shapes.map(row_major);
        let counts: Vec<usize> = spans.iter().map(|spans| spans.iter().map(|span| span.len).sum()).collect();
        let together = [0, 1].map(|side| {
            // Rows follow one another if each dimension inside of the first that has several is there in full.
            let outermost = counts.iter().position(|&count| count > 1).unwrap_or(counts.len());
            let run = spans.get(outermost).is_none_or(|spans| {
                spans.windows(2).all(|pair| pair[0].starts[side] + pair[0].len == pair[1].starts[side])
            });
            let full = (outermost + 1..counts.len()).all(|dim| counts[dim] == shapes[side][dim]);
            let start = spans.iter().zip(&strides[side]).map(|(spans, stride)| spans[0].starts[side] * stride);
            (run && full).then(|| start.sum())
        });
        let mut dims: Vec<Dim> = Vec::with_capacity(spans.len());
        for (dim, spans) in spans.into_iter().enumerate().rev() {
            let strides = [strides[0][dim], strides[1][dim]];
            match dims.last_mut() {
                // All of the inner dimension on both sides: an index of this one is so many elements in a row.
                Some(inner) if (0..2).all(|side| inner.covers(strides[side], side)) => {
                    let width = inner.spans[0].len;
                    inner.spans = spans.into_iter().map(|span| span.times(width)).collect();
                }
                _ => dims.push(Dim { strides, spans }),
            }
        }
        dims.reverse();
        Self { dims, len: counts.iter().product(), together }
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the range of a side's tile that has the piece and nothing else, if there is one.
    pub(super) fn together(&self, side: Side) -> Option<Range<usize>> {
        self.together[side as usize].map(|start| start..start + self.len)
    }

    /// Returns the rows, in order.
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows::new(self)
    }
}

impl Dim {
    /// Whether this is one span that fills `stride` elements of a side.
    fn covers(&self, stride: usize, side: usize) -> bool {
        matches!(&self.spans[..], [span] if span.starts[side] == 0 && span.len * self.strides[side] == stride)
            && self.strides[side] == 1
    }
}

impl Span {
    fn times(self, width: usize) -> Self {
        Self { starts: self.starts.map(|start| start * width), len: self.len * width }
    }
}

/// The indices that two ascending lists of ranges share, each list with positions: first indices and spans.
fn common(
    source: impl Iterator<Item = (Range<usize>, usize)>,
    target: impl Iterator<Item = (Range<usize>, usize)>,
) -> Vec<(usize, Span)> {
    let (mut source, mut target) = (source.peekable(), target.peekable());
    let mut spans: Vec<(usize, Span)> = Vec::new();
    while let (Some((a, a_at)), Some((b, b_at))) = (source.peek(), target.peek()) {
        let (start, end) = (a.start.max(b.start), a.end.min(b.end));
        if start < end {
            let starts = [a_at + start - a.start, b_at + start - b.start];
            match spans.last_mut() {
                // Blocks that a mesh axis of one coordinate deals out, say, are neighbours everywhere.
                Some((_, last)) if (0..2).all(|side| last.starts[side] + last.len == starts[side]) => {
                    last.len += end - start;
                }
                _ => spans.push((start, Span { starts, len: end - start })),
            }
        }
        if a.end <= b.end {
            source.next();
        } else {
            target.next();
        }
    }
    spans
}

/// Elements that follow one another on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The position of the first in the source's tile.
    pub(super) from: usize,
    /// The position of the first in the target's tile.
    pub(super) to: usize,
    /// The number of elements.
    pub(super) len: usize,
}

/// The rows of a piece, in row-major order.
#[derive(Clone, Debug)]
pub(super) struct Rows<'a> {
    dims: &'a [Dim],
    /// Per dimension but the last, the span and the index inside of it.
    at: Vec<(usize, usize)>,
    /// Per dimension, where the indices of those outside of it lead to.
    base: Vec<[usize; 2]>,
    /// The next span of the last dimension.
    next: usize,
    /// What is left of a row that was cut.
    rest: Option<Row>,
    done: bool,
}

impl<'a> Rows<'a> {
    fn new(piece: &'a Piece) -> Self {
        let ndim = piece.dims.len();
        // An array of no dimensions is one row of one element.
        let rest = (ndim == 0 && piece.len == 1).then_some(Row { from: 0, to: 0, len: 1 });
        let mut rows = Self {
            dims: &piece.dims,
            at: vec![(0, 0); ndim.saturating_sub(1)],
            base: vec![[0; 2]; ndim],
            next: 0,
            rest,
            done: piece.len == 0 || ndim == 0,
        };
        if !rows.done {
            rows.rebase(0);
        }
        rows
    }

    /// Calls `f` with the next rows, `elements` elements together or until there are no more; the last of them is
    /// cut if need be.
    pub(super) fn next(&mut self, elements: usize, mut f: impl FnMut(Row)) {
        let mut left = elements;
        if let Some(row) = self.rest.take() {
            let row = self.cut(row, left);
            left -= row.len;
            f(row);
        }
        let Some(last) = self.dims.last() else { return };
        // Rows may be single elements, so the inner loop asks for no more than it needs.
        while left > 0 && !self.done {
            let base = self.base[self.dims.len() - 1];
            for span in &last.spans[self.next..] {
                if left == 0 {
                    return;
                }
                let [from, to] = [0, 1].map(|side| base[side] + span.starts[side] * last.strides[side]);
                let row = self.cut(Row { from, to, len: span.len }, left);
                left -= row.len;
                self.next += 1;
                f(row);
            }
            self.next = 0;
            self.step();
        }
    }

    /// Returns the first `left` elements of a row, if it has more, and keeps the rest.
    fn cut(&mut self, row: Row, left: usize) -> Row {
        if row.len > left {
            self.rest = Some(Row { from: row.from + left, to: row.to + left, len: row.len - left });
        }
        Row { len: row.len.min(left), ..row }
    }

    /// Goes to the next indices of all dimensions but the last.
    fn step(&mut self) {
        for dim in (0..self.at.len()).rev() {
            let (span, index) = &mut self.at[dim];
            *index += 1;
            if *index == self.dims[dim].spans[*span].len {
                (*span, *index) = (*span + 1, 0);
            }
            if *span < self.dims[dim].spans.len() {
                return self.rebase(dim);
            }
            *span = 0;
        }
        self.done = true;
    }

    /// Works out the bases of the dimensions inside of `dim`.
    fn rebase(&mut self, dim: usize) {
        for dim in dim..self.at.len() {
            let (span, index) = self.at[dim];
            let (span, strides) = (self.dims[dim].spans[span], self.dims[dim].strides);
            let base = self.base[dim];
            self.base[dim + 1] = [0, 1].map(|side| base[side] + (span.starts[side] + index) * strides[side]);
        }
    }
}
