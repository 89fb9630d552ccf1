//! Views: boxes of elements addressed by their global index, and how a leaf walks through them.
//!
//! A shard and a tile are addressed in the same way, so the program that calls a leaf does not care which of the two holds its operand. A
//! view moves nothing and owns nothing.

mod blocks;

use crate::Region;
pub(crate) use crate::region::Strides;
use blocks::{Blocks, Run};
use polyshard_layout::ends_of_walk;
use smallvec::{SmallVec, smallvec};
use std::fmt::Display;
use std::ops::Range;

/// A dense or strided box of elements in global index space, read only.
///
/// The element of global index `i` is at `sum over d of (i[d] - origin[d]) * strides[d]` of the data. If the box has blocks along a
/// dimension, gaps between them are not in the data, and `i[d] - origin[d]` does not count them.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    data: &'a [T],
    origin: Strides,
    strides: Strides,
    blocks: Blocks,
    interior: Option<Interior<'a, T>>,
    outside: Option<Outside<T>>,
    tile: Option<TileStrides>,
}

/// The strides of a box as a tile, if it is part of a shard.
#[derive(Clone, Debug)]
struct TileStrides(Strides);

impl TileStrides {
    fn strided(self, _: &[i64], steps: &[&[i64]]) -> Strides {
        let loops = steps.first().map_or(0, |step| step.len());
        (0..loops).map(|l| steps.iter().zip(&self.0).map(|(step, stride)| step[l] * stride).sum()).collect()
    }
}

/// A box of indices, one range per dimension.
pub type Ranges = SmallVec<[Range<i64>; 4]>;

/// A box of a view whose elements are read in another place, where they are one dense or strided box.
#[derive(Clone, Debug)]
struct Interior<'a, T> {
    ranges: Ranges,
    data: &'a [T],
    origin: Strides,
    strides: Strides,
}

/// The value that is read where an index is outside of the array.
#[derive(Clone, Debug)]
struct Outside<T> {
    value: T,
    /// Per dimension, the array's extent, if the index may be outside.
    extents: SmallVec<[Option<i64>; 4]>,
}

/// A writable [`View`].
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    data: &'a mut [T],
    origin: Strides,
    strides: Strides,
    blocks: Blocks,
    unset: Option<Unset<T>>,
}

/// Marks data whose contents are unspecified and need not be read.
#[derive(Clone, Copy, Debug)]
enum Unset<T> {
    /// Nothing has been written yet, and each element stands for this value.
    All(T),
    /// The leaf gives each element that it accesses one value, and leaves the others unchanged.
    Touched,
}

impl<T> Unset<T> {
    fn strided(self, _: &[i64], _: &[&[i64]]) -> Self {
        self
    }
}

/// An operand of a leaf: the position that its first iteration reads, and the stride of each loop.
///
/// Without strides it is one element, the same for all iterations.
#[derive(Clone, Debug)]
pub struct Strided<'a, T> {
    #[doc(hidden)]
    pub data: &'a [T],
    #[doc(hidden)]
    pub offset: i64,
    pub(crate) strides: Strides,
    pub(crate) runs: Vec<Run>,
    pub(crate) interior: Option<StridedInterior<'a, T>>,
    pub(crate) outside: Option<StridedOutside<T>>,
    /// The strides that it would have as a tile, if they differ. Leaves take terms in the order that suits these, so that sums are the same
    /// wherever an operand is read.
    pub(crate) tile: Option<Strides>,
}

/// The iterations of an operand that read in another place: those whose index is in a box.
#[derive(Clone, Debug)]
pub(crate) struct StridedInterior<'a, T> {
    /// The place, as that of an operand.
    pub(crate) data: &'a [T],
    pub(crate) offset: i64,
    pub(crate) strides: Strides,
    /// Per dimension, the index.
    pub(crate) indices: SmallVec<[Index; 4]>,
}

/// The iterations of an operand that read a fixed value instead of an element.
#[derive(Clone, Debug)]
pub(crate) struct StridedOutside<T> {
    pub(crate) value: T,
    /// The indices, at least one of which is outside of its range in these iterations.
    pub(crate) indices: SmallVec<[Index; 4]>,
}

/// The index of a leaf's operand along one dimension.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The index in the first iteration.
    pub(crate) base: i64,
    /// The step of each loop per iteration.
    pub(crate) steps: Strides,
    /// The indices of the box.
    pub(crate) range: Range<i64>,
}

/// A writable [`Strided`] operand.
#[derive(Debug)]
pub struct StridedMut<'a, T> {
    #[doc(hidden)]
    pub data: &'a mut [T],
    pub(crate) offset: i64,
    pub(crate) strides: Strides,
    pub(crate) runs: Vec<Run>,
    unset: Option<Unset<T>>,
}

macro_rules! view {
    ($View:ident, $Strided:ident, $data:ty, $($other:ident),+) => {
        impl<'a, T> $View<'a, T> {
            /// Returns the box over `data` whose first element has global index `origin`, with `strides` in
            /// elements.
            ///
            /// # Panics
            /// If there is not one stride per dimension.
            #[track_caller]
            #[must_use]
            pub fn new(data: $data, origin: impl Into<Strides>, strides: impl Into<Strides>) -> Self {
                let (origin, strides) = (origin.into(), strides.into());
                assert!(
                    origin.len() == strides.len(),
                    "{} strides for a view of {} dimensions: give one per dimension",
                    strides.len(),
                    origin.len()
                );
                Self { data, origin, strides, blocks: Blocks::default(), $($other: None),+ }
            }

            /// The box without the gaps that `region` has between its blocks.
            #[doc(hidden)]
            pub fn in_blocks(self, region: &Region) -> Self {
                Self { blocks: Blocks::of(region), ..self }
            }

            /// Returns the operand whose first iteration accesses global index `base`, and where one iteration of leaf loop `l` moves the
            /// index along dimension `d` by `steps[d][l]`.
            ///
            /// # Panics
            /// If `base` or `steps` do not fit the number of dimensions: a bug in polyshard.
            #[track_caller]
            #[must_use]
            pub fn strided(self, base: &[i64], steps: &[&[i64]]) -> $Strided<'a, T> {
                let ndim = self.origin.len();
                assert!(
                    base.len() == ndim && steps.len() == ndim,
                    "a leaf addresses an operand of {ndim} dimensions by {} indices and {} rows of steps; \
                     this is a bug in polyshard",
                    base.len(),
                    steps.len()
                );
                let distance = |d: usize| base[d] - self.origin[d];
                let offset = (0..ndim).map(|d| self.blocks.position(d, distance(d)) * self.strides[d]).sum();
                let loops = steps.first().map_or(0, |step| step.len());
                let stride = |l: usize| (0..ndim).map(|d| self.blocks.moved(d, steps[d][l]) * self.strides[d]).sum();
                let runs = self.blocks.runs(distance, steps);
                $(let $other = self.$other.map(|other| other.strided(base, steps));)+
                $Strided { data: self.data, offset, strides: (0..loops).map(stride).collect(), runs, $($other),+ }
            }
        }

        impl<'a, T> $Strided<'a, T> {
            /// Returns the operand over `data` that starts at `offset` and moves by `strides[l]` elements with
            /// leaf loop `l`.
            #[must_use]
            pub fn new(data: $data, offset: i64, strides: impl Into<Strides>) -> Self {
                Self { data, offset, strides: strides.into(), runs: Vec::new(), $($other: None),+ }
            }

            /// The stride of each of the loops, and a check that all iterations stay inside the data.
            #[track_caller]
            pub(crate) fn checked_strides(&self, name: impl Display + Copy, counts: &[usize]) -> Strides {
                self.runs.iter().for_each(|run| run.check(name, counts));
                checked_strides(name, self.data.len(), self.offset, &self.strides, counts)
            }
        }
    };
}
view!(View, Strided, &'a [T], interior, outside, tile);
view!(ViewMut, StridedMut, &'a mut [T], unset);

impl<T: Copy> ViewMut<'_, T> {
    /// Returns the view for a [`nest`](crate::nest) that accesses each element at most once: it overwrites the elements that it
    /// accesses, as if they were the identity of its operation, and does not read them.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::runtime::leaf::{nest, pointwise};
    /// use polyshard::runtime::{Strided, ViewMut};
    /// let mut b = [9.0; 4];
    /// let target = ViewMut::new(&mut b, vec![0], vec![1]).overwritten().strided(&[1], &[&[1]]);
    /// nest(&[2], target, ReduceOp::Sum, &[Strided::new(&[1.0, 2.0], 0, vec![1])], &pointwise(|[a]: [f64; 1]| 2.0 * a));
    /// assert_eq!(b, [9.0, 2.0, 4.0, 9.0]);
    /// ```
    #[must_use]
    pub fn overwritten(self) -> Self {
        Self { unset: Some(Unset::Touched), ..self }
    }

    /// The view of data in which each element stands for `value`, whatever its contents.
    #[doc(hidden)]
    pub fn unset(self, value: T) -> Self {
        Self { unset: Some(Unset::All(value)), ..self }
    }
}

impl<T: Copy> StridedMut<'_, T> {
    /// Whether the contents are unspecified, because nothing was ever written there.
    pub(crate) fn is_unset(&self) -> bool {
        matches!(self.unset, Some(Unset::All(_)))
    }

    /// Whether elements are overwritten, each of those that are accessed once.
    pub(crate) fn is_overwritten(&self) -> bool {
        matches!(self.unset, Some(Unset::Touched))
    }

    /// Writes to each element of the data the value that it stands for, so that it can be read.
    ///
    /// # Panics
    /// If they are to be overwritten: a bug in polyshard.
    #[doc(hidden)]
    #[track_caller]
    pub fn set(&mut self) {
        match self.unset.take() {
            None => {}
            Some(Unset::All(value)) => self.data.fill(value),
            Some(Unset::Touched) => panic!("a leaf that is no nest overwrites its target; this is a bug in polyshard"),
        }
    }
}

impl<'a, T> View<'a, T> {
    /// The view whose elements with an index in `ranges` are those of `view`.
    ///
    /// That view is one box, without blocks and without an interior of its own.
    #[doc(hidden)]
    pub fn around(self, ranges: Ranges, view: View<'a, T>) -> Self {
        let View { data, origin, strides, .. } = view;
        Self { interior: Some(Interior { ranges, data, origin, strides }), ..self }
    }

    /// The view of a box inside a shard, for which tiles have these strides.
    #[doc(hidden)]
    pub fn like_tile(self, strides: Strides) -> Self {
        let tile = (strides != self.strides).then_some(TileStrides(strides));
        Self { tile, ..self }
    }

    /// Returns the view for a [`nest`](crate::nest) that reads `value` where an index is below 0 or not below the
    /// array's extent, along the dimensions for which one is given.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::runtime::leaf::{nest, pointwise};
    /// use polyshard::runtime::{Strided, StridedMut, View};
    /// let (a, mut b) = ([1.0, 2.0, 3.0], [0.0; 5]);
    /// let before = View::new(&a, vec![0], vec![1]).outside(9.0, &[Some(3)]).strided(&[-1], &[&[1]]);
    /// let target = StridedMut::new(&mut b, 0, vec![1]);
    /// nest(&[5], target, ReduceOp::Sum, &[before], &pointwise(|[a]: [f64; 1]| a));
    /// assert_eq!(b, [9.0, 1.0, 2.0, 3.0, 9.0]);
    /// ```
    #[must_use]
    pub fn outside(self, value: T, extents: &[Option<i64>]) -> Self
    where
        T: Copy,
    {
        Self { outside: Some(Outside { value, extents: extents.into() }), ..self }
    }
}

impl<T> Outside<T> {
    fn strided(self, base: &[i64], steps: &[&[i64]]) -> StridedOutside<T> {
        let dims = self.extents.into_iter().zip(base.iter().zip(steps));
        let index = |(extent, (&base, &steps)): (Option<i64>, (&i64, &&[i64]))| {
            Some(Index { base, steps: steps.into(), range: 0..extent? })
        };
        StridedOutside { value: self.value, indices: dims.filter_map(index).collect() }
    }
}

impl<'a, T> Interior<'a, T> {
    #[track_caller]
    fn strided(self, base: &[i64], steps: &[&[i64]]) -> StridedInterior<'a, T> {
        let Self { ranges, data, origin, strides } = self;
        let Strided { offset, strides, .. } = View::new(data, origin, strides).strided(base, steps);
        let index =
            |(range, (&base, &steps)): (Range<i64>, (&i64, &&[i64]))| Index { base, steps: steps.into(), range };
        let indices = ranges.into_iter().zip(base.iter().zip(steps)).map(index).collect();
        StridedInterior { data, offset, strides, indices }
    }
}

/// How far loops at these iterations have moved; an operand without strides does not move.
pub(crate) fn moved(strides: &[i64], at: &[usize]) -> i64 {
    strides.iter().zip(at).map(|(stride, &at)| stride * at as i64).sum()
}

/// The strides of some of the loops.
fn of_loops(strides: &[i64], kept: &[usize]) -> Strides {
    kept.iter().filter_map(|&l| strides.get(l).copied()).collect()
}

impl Index {
    fn at(&self, at: &[usize], kept: &[usize]) -> Self {
        let base = self.base + moved(&self.steps, at);
        Self { base, steps: of_loops(&self.steps, kept), range: self.range.clone() }
    }
}

impl<'a, T: Copy> Strided<'a, T> {
    /// The operand of the loops `kept`, where the others are at these iterations, and those kept at their first.
    pub(crate) fn at(&self, at: &[usize], kept: &[usize]) -> Self {
        let indices = |all: &[Index]| all.iter().map(|index| index.at(at, kept)).collect();
        Self {
            data: self.data,
            offset: self.offset + moved(&self.strides, at),
            strides: of_loops(&self.strides, kept),
            runs: Vec::new(),
            interior: self.interior.as_ref().map(|interior| StridedInterior {
                data: interior.data,
                offset: interior.offset + moved(&interior.strides, at),
                strides: of_loops(&interior.strides, kept),
                indices: indices(&interior.indices),
            }),
            outside: self
                .outside
                .as_ref()
                .map(|outside| StridedOutside { value: outside.value, indices: indices(&outside.indices) }),
            tile: self.tile.as_ref().map(|strides| of_loops(strides, kept)),
        }
    }

    /// Checks that the operand is read in one place.
    #[track_caller]
    pub(crate) fn one_place(&self, name: impl Display) {
        assert!(
            self.interior.is_none() && self.outside.is_none(),
            "operand {name} of a leaf that is no nest is in two places; this is a bug in polyshard"
        );
    }

    /// The same operand of a leaf of these loops, where an index is treated as one that may be outside only if it is in some iteration.
    pub(crate) fn of_loops(&self, counts: &[usize]) -> Self {
        let mut operand = self.clone();
        operand.outside = operand.outside.and_then(|mut outside| {
            outside.indices.retain(|index| index.leaves(counts));
            (!outside.indices.is_empty()).then_some(outside)
        });
        operand
    }

    /// As [`checked_strides`](Self::checked_strides), but iterations outside of the array need not be inside the data.
    #[track_caller]
    pub(crate) fn operand_strides(&self, number: usize, counts: &[usize]) -> Strides {
        match &self.outside {
            None => self.checked_strides(number, counts),
            // Rows are bounds-checked when they are read.
            Some(_) => padded(number, &self.strides, counts),
        }
    }
}

impl Index {
    /// Whether it is outside of its range in some iteration of loops that run.
    fn leaves(&self, counts: &[usize]) -> bool {
        let (least, greatest) = ends(self.base, &self.steps, counts);
        least < self.range.start.into() || greatest >= self.range.end.into()
    }
}

/// The minimum and maximum offset of loops with these strides and counts; a loop of 0 iterations counts as one of 1.
pub(crate) fn ends(start: i64, strides: &[i64], counts: &[usize]) -> (i128, i128) {
    let loops = strides.iter().zip(counts).map(|(&stride, &count)| (stride, count.max(1) as i64));
    ends_of_walk(start.into(), loops)
}

/// A stride for each loop; an operand without strides does not move.
#[track_caller]
fn padded(name: impl Display, strides: &[i64], counts: &[usize]) -> Strides {
    assert!(
        strides.is_empty() || strides.len() == counts.len(),
        "operand {name} of a leaf of {} loops has {} strides; this is a bug in polyshard",
        counts.len(),
        strides.len()
    );
    if strides.is_empty() { smallvec![0; counts.len()] } else { Strides::from_slice(strides) }
}

#[track_caller]
fn checked_strides(name: impl Display + Copy, len: usize, offset: i64, strides: &[i64], counts: &[usize]) -> Strides {
    let strides = padded(name, strides, counts);
    // A leaf without iterations accesses nothing, and its first index may be anywhere.
    if counts.contains(&0) {
        return strides;
    }
    let (least, greatest) = ends(offset, &strides, counts);
    assert!(
        least >= 0 && greatest < len as i128,
        "a leaf touches elements {least}..={greatest} of operand {name}, which has {len}; this is a bug in polyshard"
    );
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_follow_the_steps_of_the_global_index() {
        let data: Vec<i64> = (0..40).collect();
        // Rows 10.. and columns 20.. of some array, 4 by 10, read along its diagonal and along its columns.
        let view = View::new(&data, vec![10, 20], vec![10, 1]);
        let strided = view.strided(&[11, 22], &[&[1, 0], &[1, -1]]);
        assert_eq!((strided.offset, &strided.strides[..]), (12, &[11, -1][..]));
        assert_eq!(strided.checked_strides("a", &[3, 3])[..], [11, -1]);
    }

    #[test]
    fn an_operand_without_dimensions_is_one_element() {
        let strided = View::new(&[7.0], vec![], vec![]).strided(&[], &[]);
        assert_eq!(strided.checked_strides("a", &[5, 6])[..], [0, 0]);
    }

    #[test]
    #[should_panic(expected = "touches elements 12..=45 of operand a, which has 40; this is a bug in polyshard")]
    fn a_leaf_that_leaves_the_data_is_a_bug() {
        let data = [0; 40];
        let strided = Strided::new(&data, 12, vec![11]);
        let _ = strided.checked_strides("a", &[4]);
    }

    #[test]
    fn a_leaf_without_iterations_may_start_anywhere() {
        let strided = Strided::new(&[0_i32; 0], -100, vec![11, 1]);
        assert_eq!(strided.checked_strides("a", &[4, 0])[..], [11, 1]);
    }
}
