//! Pointwise kernels: the function of its operands that a loop nest computes at one point, evaluated by rows.

use super::{Rows, vector};
use crate::Element;
use std::array;
use std::marker::PhantomData;

/// A function of the operands' elements at one point, evaluated for a row of points at once.
///
/// The same function written as a closure and as an [`Expression`](super::Expression) gives the same bits:
/// each point sees the same operations in the same order, and nothing is contracted or reassociated.
pub trait Pointwise<T: Element> {
    /// Rows that an evaluation needs for intermediate results.
    fn scratch(&self) -> usize {
        0
    }

    /// The maximum number of points of a row whose operands are all read in place; a multiple of 32.
    fn points(&self) -> usize;

    /// If it is one of two values, the first of which is chosen if an operand is less than a whole number: the operand, the number and
    /// the second value.
    #[doc(hidden)]
    fn chosen(&self) -> Option<(usize, usize, &Self)> {
        None
    }

    /// Writes to `out[i]` the value at the row's point `i`.
    fn row(&self, operands: &Rows<'_, T>, scratch: &mut [T], out: &mut [T]);

    /// Returns the values at the row's points: those of [`row`](Self::row), or in place if they exist already.
    fn values<'a>(&self, operands: &Rows<'a, T>, scratch: &mut [T], out: &'a mut [T]) -> &'a [T] {
        self.row(operands, scratch, out);
        out
    }

    /// Writes to `out[i]` the sum of 0 and of the value at point `i`, which is the value unless that is `-0.0`.
    fn store(&self, operands: &Rows<'_, T>, scratch: &mut [T], out: &mut [T]) {
        self.row(operands, scratch, out);
        vector::update(out, [], &|value, []| T::ZERO.add(value));
    }

    /// Adds to `out[i]` the value at point `i`; `room` is for the values of a row.
    fn add_to(&self, operands: &Rows<'_, T>, scratch: &mut [T], room: &mut [T], out: &mut [T]) {
        let values = self.values(operands, scratch, &mut room[..out.len()]);
        vector::update(out, [values], &|sum: T, [value]: [T; 1]| sum.add(value));
    }
}

/// The points of a row that is evaluated in one pass: memory is read best in long rows, two of which should fit the nearest cache.
pub(super) fn in_one_go<T>() -> usize {
    (16 << 10) / size_of::<T>()
}

/// Returns the kernel that calls `f` with the `N` operands' elements at each point.
///
/// ```
/// use polyshard::runtime::leaf::pointwise;
/// let kernel = pointwise(|[a, b, d]: [f32; 3]| 2.0 * a * b + d);
/// # let _ = kernel;
/// ```
pub fn pointwise<T: Element, const N: usize, F: Fn([T; N]) -> T>(f: F) -> Closure<F, T, N> {
    Closure { f, takes: PhantomData }
}

/// A [`Pointwise`] kernel made from a closure by [`pointwise`].
#[derive(Clone, Copy, Debug)]
pub struct Closure<F, T, const N: usize> {
    f: F,
    takes: PhantomData<fn([T; N]) -> T>,
}

impl<T: Element, const N: usize, F: Fn([T; N]) -> T> Pointwise<T> for Closure<F, T, N> {
    fn points(&self) -> usize {
        in_one_go::<T>()
    }

    fn row(&self, operands: &Rows<'_, T>, _: &mut [T], out: &mut [T]) {
        vector::rows(out, array::from_fn(|i| operands.get(i)), &self.f);
    }

    fn store(&self, operands: &Rows<'_, T>, _: &mut [T], out: &mut [T]) {
        vector::rows(out, array::from_fn(|i| operands.get(i)), &|elements: [T; N]| T::ZERO.add((self.f)(elements)));
    }

    fn add_to(&self, operands: &Rows<'_, T>, _: &mut [T], _: &mut [T], out: &mut [T]) {
        vector::update(out, array::from_fn(|i| operands.get(i)), &|sum: T, elements: [T; N]| {
            sum.add((self.f)(elements))
        });
    }
}
