//! Blocks of a view: runs of indices at equal distances, without the gaps between them in the data.
//!
//! A leaf has one stride per loop, so along a dimension of blocks each loop either stays inside one block or moves from block to block.

use crate::Region;
use std::fmt::Display;

/// Per dimension, the size of blocks and their distance, both 0 if there is a single block; empty if no dimension has blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks(Vec<(i64, i64)>);

/// The movement of a leaf inside a block.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The position of its first iteration in the block.
    at: i64,
    /// The indices of the block.
    size: i64,
    /// The step of each loop per iteration; 0 for loops that move from block to block.
    steps: Vec<i64>,
}

impl Blocks {
    pub(super) fn of(region: &Region) -> Self {
        match region.has_blocks() {
            true => Self((0..region.ndim()).map(|dim| region.blocks(dim).unwrap_or((0, 0))).collect()),
            false => Self::default(),
        }
    }

    fn along(&self, dim: usize) -> Option<(i64, i64)> {
        self.0.get(dim).copied().filter(|&(_, step)| step > 0)
    }

    /// The position of the index at this distance from the first one.
    pub(super) fn position(&self, dim: usize, distance: i64) -> i64 {
        match self.along(dim) {
            None => distance,
            Some((size, step)) => distance.div_euclid(step) * size + distance.rem_euclid(step),
        }
    }

    /// The change of the position for a change of the index.
    pub(super) fn moved(&self, dim: usize, by: i64) -> i64 {
        match self.along(dim) {
            Some((size, step)) if by % step == 0 => by / step * size,
            _ => by,
        }
    }

    /// The conditions for a leaf that starts at these distances and moves by these steps.
    pub(super) fn runs(&self, distance: impl Fn(usize) -> i64, steps: &[&[i64]]) -> Vec<Run> {
        let runs = (0..self.0.len()).filter_map(|dim| {
            let (size, step) = self.along(dim)?;
            let steps = steps[dim].iter().map(|&by| if by % step == 0 { 0 } else { by }).collect();
            Some(Run { at: distance(dim).rem_euclid(step), size, steps })
        });
        runs.collect()
    }
}

impl Run {
    /// Checks that all iterations stay inside the block.
    #[track_caller]
    pub(super) fn check(&self, name: impl Display, counts: &[usize]) {
        // A leaf without iterations accesses nothing.
        if counts.contains(&0) {
            return;
        }
        let (low, high) = super::ends(self.at, &self.steps, counts);
        assert!(
            low >= 0 && high < i128::from(self.size),
            "a leaf touches indices {low}..={high} of a block of {} of operand {name}; this is a bug in polyshard",
            self.size
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::View;
    use crate::Region;

    /// Rows 3, 4, 11, 12 and 19 of two columns, which hold ten times their row plus their column.
    fn blocks(data: &[i64]) -> View<'_, i64> {
        let region = Region::new([3..20, 0..2]).in_blocks(0, 2, 8);
        View::new(data, region.start(), vec![2, 1]).in_blocks(&region)
    }

    const ROWS: [i64; 5] = [3, 4, 11, 12, 19];

    #[test]
    fn leaves_walk_in_a_block_or_from_block_to_block() {
        let data: Vec<i64> = ROWS.iter().flat_map(|row| [10 * row, 10 * row + 1]).collect();
        for (at, row) in ROWS.into_iter().enumerate() {
            let one = blocks(&data).strided(&[row, 1], &[&[], &[]]);
            assert_eq!((one.offset, data[one.offset as usize]), (2 * at as i64 + 1, 10 * row + 1));
        }
        let inside = blocks(&data).strided(&[11, 0], &[&[1, 0], &[0, 1]]);
        assert_eq!((inside.offset, &inside.checked_strides("a", &[2, 2])[..]), (4, &[2, 1][..]));
        let across = blocks(&data).strided(&[4, 0], &[&[8], &[0]]);
        assert_eq!((across.offset, &across.checked_strides("a", &[2])[..]), (2, &[4][..]));
        // A leaf without iterations may start in a gap.
        blocks(&data).strided(&[6, 0], &[&[1], &[0]]).checked_strides("a", &[0]);
    }

    #[test]
    #[should_panic(expected = "a leaf touches indices 1..=2 of a block of 2 of operand a; this is a bug in polyshard")]
    fn a_leaf_that_leaves_its_block_is_a_bug() {
        let data = [0; 10];
        let _ = blocks(&data).strided(&[12, 0], &[&[1], &[0]]).checked_strides("a", &[2]);
    }
}
