//! Pointwise kernels: what a loop nest computes from its operands at one point, evaluated by rows.

use super::rows::Rows;
use super::vector;
use crate::Element;
use std::array;
use std::marker::PhantomData;

/// A function of the operands' elements at one point, evaluated for a row of points at once.
///
/// The same function written as a closure and as an [`Expression`](super::Expression) gives the same bits:
/// each point sees the same operations in the same order, and nothing is contracted or reassociated.
pub trait Pointwise<T> {
    /// Writes to `out[i]` the value at the row's point `i`. A row has at most 512 points.
    fn row(&self, operands: &Rows<'_, T>, out: &mut [T]);

    /// Returns the values at the row's points: those of [`row`](Self::row), or where they lie already.
    fn values<'a>(&self, operands: &Rows<'a, T>, out: &'a mut [T]) -> &'a [T] {
        self.row(operands, out);
        out
    }
}

/// Returns the kernel that calls `f` with the `N` operands' elements at each point.
///
/// ```
/// use polyshard_runtime::leaf::pointwise;
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
    fn row(&self, operands: &Rows<'_, T>, out: &mut [T]) {
        vector::rows(out, array::from_fn(|i| operands.get(i)), &self.f);
    }
}
