//! Loops over rows, compiled for the vectors of several generations of processors; those of the running processor are chosen.
//!
//! Each element sees the same operations whatever the vectors are: nothing is reassociated, and no product is fused with a sum. Structs
//! replace closures, since only methods can be forced inline into the function that enables the vectors.

use crate::Element;
use pulp::{Arch, Simd, WithSimd};
use std::sync::atomic::{Ordering, compiler_fence};

/// Elements whose loop is unrolled.
pub(super) const GROUP: usize = 32;

/// Combines each group of `N` values into the lanes, and the remaining ones into the first lanes.
pub(super) fn fold<T: Element, const N: usize>(lanes: &mut [T; N], values: &[T], op: impl Fn(T, T) -> T) {
    Arch::new().dispatch(Fold { lanes, values, op });
}

/// Writes to `out[i]` the function of the rows' elements `i`.
pub(super) fn rows<T: Element, const N: usize>(out: &mut [T], rows: [&[T]; N], f: &impl Fn([T; N]) -> T) {
    Arch::new().dispatch(Rows { out, rows, f });
}

/// Writes to `out[i]` the function of its current value and of the rows' elements `i`.
pub(super) fn update<T: Element, const N: usize>(out: &mut [T], rows: [&[T]; N], f: &impl Fn(T, [T; N]) -> T) {
    Arch::new().dispatch(Update { out, rows, f });
}

struct Fold<'a, T, F, const N: usize> {
    lanes: &'a mut [T; N],
    values: &'a [T],
    op: F,
}

impl<T: Element, F: Fn(T, T) -> T, const N: usize> WithSimd for Fold<'_, T, F, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // A copy stays in registers.
        let mut lanes = *self.lanes;
        let (groups, rest) = self.values.as_chunks::<N>();
        for group in groups {
            for i in 0..N {
                lanes[i] = (self.op)(lanes[i], group[i]);
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(rest) {
            *lane = (self.op)(*lane, value);
        }
        *self.lanes = lanes;
    }
}

struct Rows<'a, T, F, const N: usize> {
    out: &'a mut [T],
    rows: [&'a [T]; N],
    f: &'a F,
}

impl<T: Element, F: Fn([T; N]) -> T, const N: usize> WithSimd for Rows<'_, T, F, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // Groups of a known length leave the compiler no bounds to check, and local values no aliases.
        let (groups, rest) = self.out.as_chunks_mut::<GROUP>();
        let (row_groups, row_rests) = in_groups(self.rows, groups.len(), rest.len());
        let none = [T::ZERO; GROUP];
        for (g, out) in groups.iter_mut().enumerate() {
            let rows = nth(&row_groups, g, &none);
            let mut values = [T::ZERO; GROUP];
            for (i, value) in values.iter_mut().enumerate() {
                *value = (self.f)(elements(&rows, i));
            }
            *out = values;
        }
        for (i, out) in rest.iter_mut().enumerate() {
            *out = (self.f)(elements(&row_rests, i));
        }
    }
}

struct Update<'a, T, F, const N: usize> {
    out: &'a mut [T],
    rows: [&'a [T]; N],
    f: &'a F,
}

impl<T: Element, F: Fn(T, [T; N]) -> T, const N: usize> WithSimd for Update<'_, T, F, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (groups, rest) = self.out.as_chunks_mut::<GROUP>();
        let (row_groups, row_rests) = in_groups(self.rows, groups.len(), rest.len());
        let none = [T::ZERO; GROUP];
        for (g, out) in groups.iter_mut().enumerate() {
            let rows = nth(&row_groups, g, &none);
            let mut values = *out;
            for (i, value) in values.iter_mut().enumerate() {
                *value = (self.f)(*value, elements(&rows, i));
            }
            *out = values;
            // Becomes no instruction, but keeps the loop over groups from being vectorised itself. Its vectors would gather one element
            // from each of several groups, with which sums of columns took twice the time.
            compiler_fence(Ordering::SeqCst);
        }
        for (i, out) in rest.iter_mut().enumerate() {
            *out = (self.f)(*out, elements(&row_rests, i));
        }
    }
}

// Loops instead of `array::map`, which stays a call if there are five rows or more.

/// The first `groups` groups of each row, and the `rest` elements after them.
#[inline(always)]
fn in_groups<T, const N: usize>(rows: [&[T]; N], groups: usize, rest: usize) -> ([&[[T; GROUP]]; N], [&[T]; N]) {
    let mut split: ([&[[T; GROUP]]; N], [&[T]; N]) = ([&[]; N], [&[]; N]);
    for ((of_row, rest_of_row), row) in split.0.iter_mut().zip(&mut split.1).zip(rows) {
        (*of_row, *rest_of_row) = row[..groups * GROUP + rest].as_chunks();
    }
    split
}

/// Element `i` of each row.
#[inline(always)]
fn elements<T: Element, R: AsRef<[T]> + ?Sized, const N: usize>(rows: &[&R; N], i: usize) -> [T; N] {
    let mut elements = [T::ZERO; N];
    for (element, row) in elements.iter_mut().zip(rows) {
        *element = row.as_ref()[i];
    }
    elements
}

/// Group `g` of each row; `none` initialises the result.
#[inline(always)]
fn nth<'a, T, const N: usize>(rows: &[&'a [[T; GROUP]]; N], g: usize, none: &'a [T; GROUP]) -> [&'a [T; GROUP]; N] {
    let mut groups = [none; N];
    for (group, row) in groups.iter_mut().zip(rows) {
        *group = &row[g];
    }
    groups
}
