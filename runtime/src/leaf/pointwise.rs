//! Pointwise kernels: what a loop nest computes from its operands at one point, evaluated by rows.

use super::gather::Start;
use super::vector;
use crate::{Element, Strided};
use std::array;
use std::marker::PhantomData;

/// Points that are evaluated at once; a row of every operand then fits the first-level cache.
pub(super) const CHUNK: usize = 512;

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

/// The operands of a [`Pointwise`] kernel along a row of points.
pub struct Rows<'a, T> {
    pub(super) operands: &'a [Strided<'a, T>],
    /// Where the row of each operand starts.
    pub(super) starts: &'a [Start],
    pub(super) gathered: &'a [T],
    pub(super) len: usize,
}

impl<'a, T> Rows<'a, T> {
    /// Returns the elements of operand `i`, one per point.
    ///
    /// # Panics
    /// If there is no operand `i`: a bug of polyshard.
    #[must_use]
    pub fn get(&self, i: usize) -> &'a [T] {
        assert!(i < self.operands.len(), "no operand {i} of {}; this is a bug of polyshard", self.operands.len());
        let (data, start) = match self.starts[i] {
            Start::Data(start) => (self.operands[i].data, start),
            Start::Gathered(start) => (self.gathered, start),
            Start::Interior(start) => (self.operands[i].interior.as_ref().map_or(&[][..], |of| of.operand.data), start),
        };
        &data[start..][..self.len]
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
