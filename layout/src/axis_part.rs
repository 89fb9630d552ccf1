//! Parts of mesh axes: digits of coordinates.
//!
//! Two digits of one axis are independent of each other, as different axes are, if one lies above the other.

use crate::Mesh;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One digit of a rank's coordinate along an axis: `coordinate / stride % extent`.
///
/// ```text
/// axis y: 6        y%3  is  0 1 2 0 1 2        stride 1, extent 3
///                  y/3  is  0 0 0 1 1 1        stride 3, extent 2
/// ```
///
/// ```
/// use polyshard::layout::AxisPart;
/// use polyshard::prelude::*;
/// let y = AxisPart::whole(&Mesh::new([("y", 6)]), 0);
/// let (low, high) = y.split(3);
/// assert_eq!([low.digit(&[4]), high.digit(&[4])], [1, 1]); // 4 = 1 * 3 + 1
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AxisPart {
    /// The axis' position in the mesh.
    pub axis: usize,
    /// The divisor of the coordinate; it divides the axis' extent.
    pub stride: usize,
    /// The number of values; `stride * extent` divides the axis' extent.
    pub extent: usize,
}

impl AxisPart {
    /// Returns the whole of an axis of `mesh`.
    ///
    /// # Panics
    /// If the mesh has no axis at this position.
    #[must_use]
    pub fn whole(mesh: &Mesh, axis: usize) -> Self {
        Self { axis, stride: 1, extent: mesh.as_slice()[axis].extent }
    }

    /// Returns the digit of a rank at these coordinates.
    #[must_use]
    pub fn digit(&self, coordinates: &[usize]) -> usize {
        coordinates[self.axis] / self.stride % self.extent
    }

    /// Returns whether the two digits take all pairs of values equally often over the ranks.
    #[must_use]
    pub fn is_independent_of(&self, other: &Self) -> bool {
        let above = |high: &Self, low: &Self| low.end().is_some_and(|end| high.stride.is_multiple_of(end));
        self.axis != other.axis || self.extent == 1 || other.extent == 1 || above(self, other) || above(other, self)
    }

    /// Returns the stride of the digit above it; `None` if it overflows.
    #[must_use]
    pub fn end(&self) -> Option<usize> {
        self.stride.checked_mul(self.extent)
    }

    /// Returns the lower digit of extent `low` and the digit above it.
    ///
    /// # Panics
    /// If `low` does not divide the extent.
    #[must_use]
    pub fn split(&self, low: usize) -> (Self, Self) {
        assert!(self.extent.is_multiple_of(low), "a digit of {} values has no lower digit of {low}", self.extent);
        let above = Self { axis: self.axis, stride: self.stride * low, extent: self.extent / low };
        (Self { extent: low, ..*self }, above)
    }

    /// Returns the part as text: `y`, `y%3` for the low digit, `y/3` for the high one, `y/2%3`.
    pub fn display<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        struct Shown<'a>(&'a AxisPart, &'a Mesh);
        impl fmt::Display for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let axis = self.1.as_slice()[self.0.axis];
                f.write_str(axis.name.as_str())?;
                if self.0.stride > 1 {
                    write!(f, "/{}", self.0.stride)?;
                }
                if self.0.end() != Some(axis.extent) {
                    write!(f, "%{}", self.0.extent)?;
                }
                Ok(())
            }
        }
        Shown(self, mesh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_digit_of_the_coordinate() {
        let whole = AxisPart { axis: 0, stride: 1, extent: 12 };
        let (low, high) = whole.split(3);
        for coordinate in 0..12 {
            assert_eq!(low.digit(&[coordinate]) + 3 * high.digit(&[coordinate]), coordinate);
        }
    }

    #[test]
    fn digits_are_independent_if_one_lies_above_the_other() {
        let part = |stride, extent| AxisPart { axis: 0, stride, extent };
        assert!(part(1, 3).is_independent_of(&part(3, 2)));
        assert!(!part(1, 3).is_independent_of(&part(2, 3)), "they overlap");
        assert!(!part(1, 2).is_independent_of(&part(3, 2)), "2 does not divide 3: pairs are not equally frequent");
        assert!(part(1, 3).is_independent_of(&AxisPart { axis: 1, stride: 1, extent: 3 }));
        assert!(
            !part(1 << 32, 1 << 32).is_independent_of(&part(1 << 32, 1 << 32)),
            "no axis is so long, whatever the product wraps to"
        );
    }
}
