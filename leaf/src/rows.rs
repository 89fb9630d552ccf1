//! The rows of operands on which a pointwise kernel is evaluated.

use crate::Strided;

/// Points that are evaluated at once; a row of every operand then fits the first-level cache.
pub(super) const CHUNK: usize = 512;

/// The operands of a [`Pointwise`](super::Pointwise) kernel along a row of points.
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
    /// If there is no operand `i`: a bug in polyshard.
    #[must_use]
    pub fn get(&self, i: usize) -> &'a [T] {
        assert!(i < self.starts.len(), "no operand {i} of {}; this is a bug in polyshard", self.starts.len());
        let (data, start) = match self.starts[i] {
            Start::Data(start) => (self.operands[i].data, start),
            Start::Gathered(start) => (self.gathered, start),
            Start::Interior(start) => (self.operands[i].interior.as_ref().map_or(&[][..], |of| of.data), start),
        };
        &data[start..][..self.len]
    }
}

/// Where a row starts.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// In the operand's data.
    Data(usize),
    /// In the data of the operand's interior.
    Interior(usize),
    /// Among the gathered rows.
    Gathered(usize),
}
