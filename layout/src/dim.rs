//! How one dimension of an array is distributed over a mesh: in blocks, which may be divided again, level by level. Tests:
//! `layout/src/sharding/tests.rs`.

use crate::Mesh;
use crate::linear::LinearAxes;
use serde::Serialize;
use std::ops::Range;

/// How one dimension is distributed over the mesh: its levels, outermost first. Without any, every owner has all of it.
///
/// The first level divides the dimension, and each further one the blocks of the level before it. So an index has one
/// digit per level, the number of the block that holds it, and a rank owns the indices with the digits of its
/// [levels](LevelLayout::at).
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("node", 2), ("rank", 2)]);
/// let [node, rank] = mesh.axes();
/// let rows = Sharding::new(&mesh, &[13], &[Placement::block(0, node).at(rank)])?;
/// let blocks: Vec<_> = rows.dims()[0].levels().iter().map(|level| level.block).collect();
/// assert_eq!(blocks, [7, 4]);
/// let owned = |rank| rows.pieces(0, &mesh.coordinates(rank), 0..13).next().unwrap().0;
/// assert_eq!([0, 1, 2, 3].map(owned), [0..4, 4..7, 7..11, 11..13]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct DimLayout {
    levels: Vec<LevelLayout>,
}

/// One level of a dimension: blocks of the dimension, or of a block of the level before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LevelLayout {
    /// The digit that a rank owns.
    pub at: LinearAxes,
    /// The number of digits.
    pub parts: usize,
    /// Indices in a block, at least 1.
    pub block: usize,
    /// Whether there are more than `parts` blocks; the digit of a block is then its number modulo `parts`.
    pub cyclic: bool,
}

impl LevelLayout {
    /// The single level equivalent to these two, if the outer blocks consist of whole turns of the inner ones.
    pub(crate) fn joined(outer: &Self, inner: &Self, mesh: &Mesh) -> Option<Self> {
        let turn = inner.parts.saturating_mul(inner.block);
        if inner.cyclic {
            // Every rank has all outer blocks, and the digits restart in each, where they would restart anyway.
            return (outer.parts == 1 && outer.block.is_multiple_of(turn)).then(|| inner.clone());
        }
        let at = match (outer.block == turn, outer.parts) {
            (false, _) => return None,
            (true, 1) => inner.at.clone(),
            (true, _) => LinearAxes::joined(&outer.at, &inner.at, mesh)?,
        };
        Some(Self { at, parts: outer.parts * inner.parts, block: inner.block, cyclic: outer.cyclic })
    }

    /// Returns whether a level that divides `size` indices is in blocks of `ceil(size / parts)`, so that
    /// [`Block`](crate::Division::Block) describes it fully.
    #[must_use]
    pub fn is_in_ceil_blocks(&self, size: usize) -> bool {
        !self.cyclic && self.block == size.div_ceil(self.parts).max(1)
    }

    /// The number of indices after which digits repeat, if they do.
    fn turn(&self) -> Option<usize> {
        self.cyclic.then(|| self.block.saturating_mul(self.parts))
    }
}

/// One digit of an element: the number of the block that holds it at one level of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Digit {
    /// The dimension.
    pub dim: usize,
    /// The level, from 0, the outermost.
    pub level: usize,
}

impl DimLayout {
    /// Every owner has all of the dimension.
    pub const WHOLE: Self = Self { levels: Vec::new() };

    pub(crate) fn new(levels: Vec<LevelLayout>) -> Self {
        Self { levels }
    }

    /// Returns the levels, outermost first.
    #[must_use]
    pub fn levels(&self) -> &[LevelLayout] {
        &self.levels
    }

    /// Returns whether the coordinate along the axis at this position decides who owns an index.
    #[must_use]
    pub fn places(&self, axis: usize) -> bool {
        self.levels.iter().any(|level| level.at.terms.iter().any(|term| term.0 == axis))
    }

    /// Returns whether a rank may own several blocks of the dimension.
    #[must_use]
    pub fn is_cyclic(&self) -> bool {
        self.levels.iter().any(|level| level.cyclic)
    }

    /// Returns the period of the indices that a rank owns, if the dimension is cyclic.
    #[must_use]
    pub fn turn(&self) -> Option<usize> {
        // A rank has one block of each level outside the first cyclic one.
        self.levels.iter().find_map(LevelLayout::turn)
    }

    /// Returns whether each owner has the whole dimension, because each level has only one digit.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.levels.iter().all(|level| level.parts == 1)
    }

    /// Returns the number of indices that a level divides, of a dimension of `extent`.
    #[must_use]
    pub fn divided(&self, level: usize, extent: usize) -> usize {
        level.checked_sub(1).map_or(extent, |outer| self.levels[outer].block)
    }

    /// Returns the digit of `index` at `level`.
    #[must_use]
    pub fn digit(&self, level: usize, index: usize) -> usize {
        let index = self.levels[..level].iter().fold(index, |index, level| index % level.block);
        let LevelLayout { parts, block, cyclic, .. } = self.levels[level];
        if cyclic { index / block % parts } else { index / block }
    }

    /// Returns the end of the block of `index`, which may be beyond the dimension: all indices from `index` up to there have the same
    /// owners.
    #[must_use]
    pub fn end_of_block(&self, index: usize) -> usize {
        let (mut within, mut left) = (index, usize::MAX);
        for level in &self.levels {
            within %= level.block;
            left = left.min(level.block - within);
        }
        index.saturating_add(left)
    }

    /// Returns whether the rank at `coordinates` owns `index`, as far as this dimension decides.
    #[must_use]
    pub fn owns(&self, coordinates: &[usize], index: usize) -> bool {
        let owns = |level: usize| self.levels[level].at.eval(coordinates) == self.digit(level, index) as i64;
        (0..self.levels.len()).all(owns)
    }

    /// Returns the number of indices below `end` that the rank at `coordinates` owns.
    #[must_use]
    pub fn owned_below(&self, coordinates: &[usize], end: usize) -> usize {
        // Nothing is allocated for up to one level, since this is called often, for each rank.
        match &self.levels[..] {
            [] => end,
            [level] => below(&[Level::of(level, level.at.eval(coordinates) as usize)], end),
            _ => below(&self.selected(coordinates), end),
        }
    }

    /// Returns the first index that the rank at `coordinates` owns; beyond the dimension if it owns none.
    #[must_use]
    pub fn first(&self, coordinates: &[usize]) -> usize {
        self.selected(coordinates).iter().fold(0, |first, level| first.saturating_add(level.start))
    }

    /// Returns an upper bound on the ranks of a group along these axes that own some of any `length` consecutive indices; 1 if the group
    /// does not divide the dimension.
    #[must_use]
    pub fn most_owners(&self, length: usize, axes: &[usize]) -> usize {
        let of = |level: &LevelLayout| match level.at.terms.iter().any(|term| axes.contains(&term.0)) {
            true => (length.saturating_sub(1).div_ceil(level.block) + 1).min(level.parts),
            false => 1,
        };
        self.levels.iter().map(of).fold(1, usize::saturating_mul)
    }

    /// Returns the maximum number of indices that a rank owns of a dimension of `extent`.
    #[must_use]
    pub fn max_owned(&self, extent: usize) -> usize {
        // No rank owns more than the one whose digits are all 0: other blocks have the same length, or are cut off.
        below(&selected(&self.levels, |_| 0), extent)
    }

    /// Returns an upper bound on the indices that a rank owns of any `length` consecutive ones; it is tight for a single level.
    #[must_use]
    pub fn max_owned_of(&self, length: usize) -> usize {
        max_owned_of(&self.levels, length)
    }

    /// The blocks that the rank at `coordinates` owns, of each level.
    fn selected(&self, coordinates: &[usize]) -> Vec<Level> {
        selected(&self.levels, |level| level.at.eval(coordinates) as usize)
    }
}

fn max_owned_of(levels: &[LevelLayout], length: usize) -> usize {
    let Some((level, inner)) = levels.split_first() else { return length };
    match level.turn() {
        None => max_owned_of(inner, length.min(level.block)),
        Some(turn) => {
            // Whole turns plus at most one block, wherever the indices begin.
            let of_block = below(&selected(inner, |_| 0), level.block);
            length / turn * of_block + (length % turn).min(of_block)
        }
    }
}

/// The indices of a dimension that a rank owns, ascending; the position of an index is its position in the rank's block.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let cyclic = Sharding::new(&mesh, &[11], &[Placement::block_cyclic(0, mesh.axes::<1>()[0], 2)])?;
/// let owned = cyclic.owned(0, &[1]); // 2, 3, 6, 7 and 10
/// assert_eq!((owned.len(), owned.run(2), owned.run(3), owned.below(7)), (5, 6..8, 7..8, 3));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Owned {
    levels: Vec<Level>,
    /// The end of the indices that the rank owns; 0 if it owns nothing.
    end: usize,
}

impl Owned {
    pub(crate) fn new(layout: &DimLayout, coordinates: &[usize], end: usize) -> Self {
        Self { levels: layout.selected(coordinates), end }
    }

    /// Returns the number of indices.
    #[must_use]
    pub fn len(&self) -> usize {
        below(&self.levels, self.end)
    }

    /// Returns whether the rank owns no index.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of indices below `index`.
    #[must_use]
    pub fn below(&self, index: usize) -> usize {
        below(&self.levels, index.min(self.end))
    }

    /// Returns the rest of a block, starting with the index at `position`; an empty range beyond the last position.
    #[must_use]
    pub fn run(&self, position: usize) -> Range<usize> {
        let start = nth(&self.levels, position);
        let run = self.next(start).filter(|run| run.start == start);
        run.unwrap_or(self.end..self.end)
    }

    /// The first range of the indices that ends after `from`, without those before `from`.
    pub(crate) fn next(&self, from: usize) -> Option<Range<usize>> {
        next(&self.levels, from, self.end)
    }
}

/// One level: the blocks `start + n * turn .. + block`, of which the rank owns the indices that the inner levels select.
#[derive(Clone, Copy, Debug)]
struct Level {
    start: usize,
    block: usize,
    turn: usize,
    /// The number of owned indices in a block that is not cut off.
    owned: usize,
}

impl Level {
    /// The block with this digit, all of it owned.
    fn of(level: &LevelLayout, digit: usize) -> Self {
        Self {
            start: digit.saturating_mul(level.block),
            block: level.block,
            turn: level.turn().unwrap_or(usize::MAX),
            owned: level.block,
        }
    }
}

/// The blocks with these digits, of each level.
fn selected(levels: &[LevelLayout], digit: impl Fn(&LevelLayout) -> usize) -> Vec<Level> {
    let mut blocks: Vec<_> = levels.iter().map(|level| Level::of(level, digit(level))).collect();
    for level in (0..blocks.len()).rev() {
        blocks[level].owned = below(&blocks[level + 1..], blocks[level].block);
    }
    blocks
}

/// The number of owned indices below `end`.
fn below(levels: &[Level], end: usize) -> usize {
    let Some((level, inner)) = levels.split_first() else { return end };
    let rest = (end % level.turn).saturating_sub(level.start).min(level.block);
    end / level.turn * level.owned + below(inner, rest)
}

/// The owned index at this position, counted from 0.
fn nth(levels: &[Level], position: usize) -> usize {
    let Some((level, inner)) = levels.split_first() else { return position };
    let owned = level.owned.max(1);
    let start = level.start.saturating_add((position / owned).saturating_mul(level.turn));
    start.saturating_add(nth(inner, position % owned))
}

/// The first range of owned indices of `0..size` that ends after `from`, without the indices before `from`.
fn next(levels: &[Level], from: usize, size: usize) -> Option<Range<usize>> {
    if from >= size {
        return None;
    }
    let Some((level, inner)) = levels.split_first() else { return Some(from..size) };
    if level.owned == 0 {
        return None;
    }
    // The indices owned in the turn of `from` may all lie before it; then the next turn has the first ones, unless the dimension ends.
    let turn = from.saturating_sub(level.start) / level.turn;
    [turn, turn + 1].into_iter().find_map(|turn| {
        let start = level.start.saturating_add(level.turn.saturating_mul(turn));
        let size = level.block.min(size.saturating_sub(start));
        let found = next(inner, from.saturating_sub(start), size)?;
        Some(start + found.start..start + found.end)
    })
}
