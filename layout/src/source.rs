//! Where the owner of an element is, axis by axis.

use crate::dim::Digit;
use crate::linear::LinearAxes;
use serde::Serialize;

/// Where the owner of an element is along one axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum AxisSource {
    /// The axis replicates: at the reader's own coordinate.
    Reader,
    /// At this coordinate: the tensor is pinned to it.
    Pin(usize),
    /// At `digit / stride % extent` of a digit of the element.
    Digit {
        /// The digit.
        digit: Digit,
        /// The digits that one step along the axis spans.
        stride: i64,
        /// The extent of the axis.
        extent: i64,
    },
    /// At `(sum of factor * digit + rest) % modulus / stride % parts`, where `rest` is over coordinates of earlier sources.
    Skew {
        /// Digits of the element with their factors.
        digits: Vec<(Digit, i64)>,
        /// The sum over other coordinates; its own modulus is `None`.
        rest: LinearAxes,
        /// The modulus of the placement.
        modulus: i64,
        /// The remainders that one step along the axis spans: 1, unless several axes number them together.
        stride: i64,
        /// The number of coordinates, from 0, that own something; at most the extent of the axis.
        parts: i64,
    },
}

impl AxisSource {
    /// Returns whether the last coordinates of an axis of this extent own the same as the first ones: the axis has more coordinates than
    /// parts.
    #[must_use]
    pub fn repeats(&self, extent: usize) -> bool {
        matches!(self, Self::Skew { parts, .. } if *parts < extent as i64)
    }
}
