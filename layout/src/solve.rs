//! Who owns a block: placements solved for the mesh coordinates.
//!
//! A placement says which block a rank owns (`digit = (x + y) % 8`). Transfers ask the other way round: given
//! the digits of an element and a reader, at which coordinates is its owner? Each placement is solved for axes
//! of its own, remainders by [`crate::congruence`]; an axis that no placement solves is replicated, and there
//! the owner is the one at the reader's own coordinate. So each reader has one owner to read an element from,
//! and every rank computes the same one.
//!
//! Numbers of a placement that is a remainder are kept below its modulus, others within 62 bits; so no sum over
//! a mesh, which has at most 2^62 ranks, overflows.

use crate::congruence;
use crate::dim::Digit;
use crate::linear::LinearAxes;
use crate::source::AxisSource;
use crate::{Mesh, ShardingError};

/// Solves the placements of digits for the coordinates: where the owner is along each axis, by position, in an order in which each
/// depends on earlier ones only.
pub(crate) fn solve(
    placed: &[(Digit, &LinearAxes)],
    pins: &[(usize, usize)],
    mesh: &Mesh,
) -> Result<Vec<(usize, AxisSource)>, ShardingError> {
    let name = |axis: usize| mesh.as_slice()[axis].name;
    let extent = |axis: usize| mesh.as_slice()[axis].extent as i64;
    let mut solved: Vec<(usize, AxisSource)> =
        pins.iter().map(|&(axis, coordinate)| (axis, AxisSource::Pin(coordinate))).collect();
    for (digit, linear) in placed {
        let Some((_, terms)) = linear.radix(mesh) else { continue };
        for (axis, stride) in terms {
            if solved.iter().any(|other| other.0 == axis) {
                return Err(ShardingError::AxisTwice { axis: name(axis) });
            }
            solved.push((axis, AxisSource::Digit { digit: *digit, stride, extent: extent(axis) }));
        }
    }
    let known: Vec<_> = solved.iter().map(|source| source.0).collect();
    let skews = congruence::solve(placed, &known, mesh)?;
    for axis in 0..mesh.ndim() {
        if solved.iter().chain(&skews).all(|other| other.0 != axis) {
            solved.push((axis, AxisSource::Reader));
        }
    }
    // A skew follows the sources that it depends on: replicated, pinned and digit axes first, then the pivots
    // in their order.
    solved.sort_by_key(|(axis, _)| *axis);
    solved.extend(skews);
    Ok(solved)
}
