//! Where the owner of an element stands, axis by axis.

use crate::dim::Digit;
use crate::linear::LinearAxes;
use serde::Serialize;

/// Where the owner of an element stands along one axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum AxisSource {
    /// The axis replicates: at the reader's own coordinate.
    Reader,
    /// The tensor is kept at this coordinate alone.
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
    /// At `(sum of factor * digit + rest) % modulus / stride % parts`, where `rest` is over coordinates that come earlier.
    Skew {
        /// Digits of the element with their factors.
        digits: Vec<(Digit, i64)>,
        /// What is added; its own modulus is `None`.
        rest: LinearAxes,
        /// The modulus of the placement.
        modulus: i64,
        /// The remainders that one step along the axis spans: 1, unless several axes have them together.
        stride: i64,
        /// The coordinates that own something, from 0 on; at most the extent of the axis.
        parts: i64,
    },
}

impl AxisSource {
    /// Returns whether the last coordinates of an axis of this extent own what the first ones do: there are more of them than remainders.
    #[must_use]
    pub fn repeats(&self, extent: usize) -> bool {
        matches!(self, Self::Skew { parts, .. } if *parts < extent as i64)
    }
}
