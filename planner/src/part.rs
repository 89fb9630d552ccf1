//! Lists of digits of mesh axes, which number an array's tiles.
//!
//! A redistribution often moves a factor of an axis and leaves the rest, so the unit of planning is not an
//! axis but a digit of its coordinate.

use crate::factor::{divisors, primes};
pub use polyshard_layout::AxisPart;
use polyshard_layout::Mesh;

/// Joins adjacent digits that form one digit, and drops digits of one value. Minor first.
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

/// Returns the texts of digits: `x`, `y%3`.
pub(crate) fn texts(parts: &[AxisPart], mesh: &Mesh) -> Vec<String> {
    parts.iter().map(|part| part.display(mesh).to_string()).collect()
}

/// Returns the product of the extents.
pub(crate) fn extent(parts: &[AxisPart]) -> usize {
    parts.iter().map(|part| part.extent).product()
}

/// Splits digits, minor first, into the lowest, whose extents multiply to `low`, and the rest; none if they do not
/// split there.
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

/// The digits, minor first, into which a digit comes apart where any of these digits of its axis begins or ends; none if
/// it does not.
pub(crate) fn cut(part: AxisPart, at: &[AxisPart]) -> Option<Vec<AxisPart>> {
    let others = at.iter().filter(|other| other.axis == part.axis);
    let ends = others.flat_map(|other| [other.stride, other.stride * other.extent]);
    let end = part.stride * part.extent;
    let mut ends: Vec<usize> = ends.filter(|&cut| part.stride < cut && cut < end).chain([end]).collect();
    ends.sort_unstable();
    ends.dedup();
    let starts = [part.stride].into_iter().chain(ends.iter().copied());
    let digit = |(stride, &end): (usize, &usize)| {
        end.is_multiple_of(stride).then(|| AxisPart { axis: part.axis, stride, extent: end / stride })
    };
    starts.zip(&ends).map(digit).collect()
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
    fn digits_that_follow_one_another_are_joined() {
        let whole = AxisPart { axis: 0, stride: 1, extent: 12 };
        let (low, high) = whole.split(3);
        assert_eq!(joined([low, high]), [whole]);
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
