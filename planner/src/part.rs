//! Parts of mesh axes: the digits that number an array's tiles.
//!
//! A redistribution often moves a factor of an axis and leaves the rest, so the unit of planning is not an
//! axis but a digit of its coordinate. Two digits of one axis are independent of each other, as all axes
//! are, if one lies above the other.

use crate::factor::{divisors, primes};
use polyshard_layout::Mesh;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One digit of a rank's coordinate along an axis: `coordinate / stride % extent`.
///
/// ```text
/// axis y: 6        y%3  is  0 1 2 0 1 2        stride 1, extent 3
///                  y/3  is  0 0 0 1 1 1        stride 3, extent 2
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AxisPart {
    /// The axis' position in the mesh.
    pub axis: usize,
    /// What the coordinate is divided by; it divides the axis' extent.
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

    /// Returns the stride of the digit above it; none if no axis is so long.
    pub(crate) fn end(&self) -> Option<usize> {
        self.stride.checked_mul(self.extent)
    }

    /// Returns the lower digit of extent `low` and the digit above it.
    pub(crate) fn split(&self, low: usize) -> (Self, Self) {
        debug_assert!(self.extent.is_multiple_of(low), "{low} does not divide {self:?}; this is a bug of polyshard");
        let above = Self { axis: self.axis, stride: self.stride * low, extent: self.extent / low };
        (Self { extent: low, ..*self }, above)
    }

    /// Returns how the part is written: `y`, `y%3` for the low digit, `y/3` for the high one, `y/2%3`.
    pub(crate) fn display<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
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

/// Joins neighbours that are one digit, and drops digits of one value. Minor first.
pub(crate) fn joined(parts: impl IntoIterator<Item = AxisPart>) -> Vec<AxisPart> {
    let mut joined: Vec<AxisPart> = Vec::new();
    for part in parts.into_iter().filter(|part| part.extent > 1) {
        match joined.last_mut() {
            Some(last) if last.axis == part.axis && last.stride * last.extent == part.stride => {
                last.extent *= part.extent;
            }
            _ => joined.push(part),
        }
    }
    joined
}

/// Returns the product of the extents.
pub(crate) fn extent(parts: &[AxisPart]) -> usize {
    parts.iter().map(|part| part.extent).product()
}

/// Divides digits, minor first, into the lowest whose extents multiply to `low` and those above, if they can be.
pub(crate) fn split(parts: &[AxisPart], low: usize) -> Option<(Vec<AxisPart>, Vec<AxisPart>)> {
    let (mut below, mut above, mut rest) = (Vec::new(), Vec::new(), low);
    for part in parts {
        if rest == 1 {
            above.push(*part);
        } else if rest.is_multiple_of(part.extent) {
            below.push(*part);
            rest /= part.extent;
        } else if part.extent.is_multiple_of(rest) {
            let (under, over) = part.split(rest);
            below.push(under);
            above.push(over);
            rest = 1;
        } else {
            return None;
        }
    }
    (rest == 1).then_some((below, above))
}

/// The digits, minor first, of the finest cut that two numberings have in common.
pub(crate) fn common(left: &[AxisPart], right: &[AxisPart]) -> Vec<AxisPart> {
    let (mine, theirs) = (extent(left), extent(right));
    let cut = |pieces: usize| {
        let (_, high) = split(left, mine / pieces)?;
        let (_, same) = if theirs.is_multiple_of(pieces) { split(right, theirs / pieces)? } else { return None };
        (joined(high.clone()) == joined(same)).then_some(high)
    };
    divisors(mine).into_iter().rev().find_map(cut).unwrap_or_default()
}

/// Returns the digits as digits of prime extent, minor first.
pub(crate) fn atoms(parts: &[AxisPart]) -> Vec<AxisPart> {
    let mut atoms = Vec::new();
    for part in parts {
        let mut rest = *part;
        for prime in primes(part.extent) {
            let (low, high) = rest.split(prime);
            atoms.push(low);
            rest = high;
        }
    }
    atoms
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
        assert_eq!(joined([low, high]), [whole]);
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

    #[test]
    fn digits_divide_where_the_factors_are() {
        let parts = [AxisPart { axis: 0, stride: 1, extent: 4 }, AxisPart { axis: 1, stride: 1, extent: 3 }];
        let (low, high) = split(&parts, 2).expect("2 divides 4");
        assert_eq!((extent(&low), extent(&high)), (2, 6));
        assert_eq!(split(&parts, 3), None, "the lowest digit has no factor 3");
        assert_eq!(split(&parts, 24), None, "there are 12 values only");
        assert_eq!(split(&parts, 12), Some((parts.to_vec(), vec![])));
    }
}
