//! The groups and permutations of ranks that exchange, as formulas over digits of coordinates.
//!
//! An all-to-all removes digits from some dimensions and adds digits to others. Where both are the same, a group is the
//! ranks that differ in these digits. Where they are not, each removed digit is paired with an added one, and both
//! change together in a group: if `x` is removed and `r`, so far replicating, is added, the ranks on a diagonal of the
//! `x`, `r` plane hold all pieces together, and each knows which one it receives.

use crate::DistType;
use crate::part::{AxisPart, atoms, cut, extent, joined, split};
use crate::types::number;
use polyshard_layout::Mesh;

/// Digits that change together inside a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Diagonal(Vec<AxisPart>);

/// Returns the digits of prime extent along which the ranks of a group differ, when `out` is removed and `into` is
/// added; none if digits of one axis overlap in part.
pub(super) fn diagonals(out: &[AxisPart], into: Option<&[AxisPart]>) -> Option<Vec<Diagonal>> {
    let Some(into) = into else {
        return Some(refined(out, &[])?.into_iter().map(|part| Diagonal(vec![part])).collect());
    };
    let pairs = pairs(refined(out, into)?, refined(into, out)?)?.into_iter();
    Some(pairs.map(|(one, other)| Diagonal(if one == other { vec![one] } else { vec![one, other] })).collect())
}

/// Returns the ranks of the group of `rank`, ascending.
pub(super) fn members(mesh: &Mesh, diagonals: &[Diagonal], rank: usize) -> Vec<usize> {
    let mut members = vec![mesh.coordinates(rank)];
    for Diagonal(parts) in diagonals {
        let shifted = |at: &[usize], by: usize| {
            let mut at = at.to_vec();
            for part in parts {
                let digit = part.digit(&at);
                at[part.axis] -= digit * part.stride;
                at[part.axis] += (digit + by) % part.extent * part.stride;
            }
            at
        };
        members = members.iter().flat_map(|at| (0..parts[0].extent).map(move |by| shifted(at, by))).collect();
    }
    let mut members: Vec<usize> = members.iter().map(|at| mesh.rank(at)).collect();
    members.sort_unstable();
    members
}

/// The permutation from ranks by one type to ranks by another: each rank sends its tile to one other.
pub(super) struct Senders<'a> {
    from: &'a DistType,
    to: &'a DistType,
    /// Digits that replicate by the first type, paired with those by the second: the same for all ranks.
    free: Vec<(AxisPart, AxisPart)>,
}

impl<'a> Senders<'a> {
    pub(super) fn new(from: &'a DistType, to: &'a DistType) -> Self {
        let free = pairs(free(from), free(to)).expect("both sides have the same factors: this is a bug in polyshard");
        Self { from, to, free }
    }

    /// Returns the rank whose tile by `from` is the tile of `rank` by `to`.
    pub(super) fn sender(&self, rank: usize) -> usize {
        let mesh = self.from.mesh();
        let coordinates = mesh.coordinates(rank);
        let mut sender = vec![0; mesh.ndim()];
        for (before, after) in self.from.dims().iter().zip(self.to.dims()) {
            let mut tile = number(&after.parts, &coordinates);
            for part in &before.parts {
                sender[part.axis] += tile % part.extent * part.stride;
                tile /= part.extent;
            }
        }
        for (there, here) in &self.free {
            sender[there.axis] += here.digit(&coordinates) * there.stride;
        }
        mesh.rank(&sender)
    }
}

/// Pairs digits of equal extents, a digit with itself where possible; none if one is left over.
fn pairs(left: Vec<AxisPart>, right: Vec<AxisPart>) -> Option<Vec<(AxisPart, AxisPart)>> {
    let (same, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|part| right.contains(part));
    let mut open: Vec<_> = right.into_iter().filter(|part| !same.contains(part)).collect();
    let mut pairs: Vec<_> = same.into_iter().map(|part| (part, part)).collect();
    for part in left {
        let partner = open.iter().position(|other| other.extent == part.extent)?;
        pairs.push((part, open.remove(partner)));
    }
    open.is_empty().then_some(pairs)
}

/// The digits of prime extent that replicate.
fn free(dist_type: &DistType) -> Vec<AxisPart> {
    let used: Vec<AxisPart> = dist_type.parts().collect();
    let digits = (0..dist_type.mesh().ndim()).flat_map(|axis| dist_type.digits(axis));
    atoms(&digits.filter(|digit| !used.contains(digit)).collect::<Vec<_>>())
}

/// Digits of prime extent, also divided where digits of `other` begin or end.
fn refined(parts: &[AxisPart], other: &[AxisPart]) -> Option<Vec<AxisPart>> {
    let merged = |parts: &[AxisPart]| {
        let mut parts = parts.to_vec();
        parts.sort_unstable();
        joined(parts)
    };
    let other = merged(other);
    let digits = merged(parts).into_iter().map(|part| cut(part, &other)).collect::<Option<Vec<_>>>()?;
    Some(atoms(&digits.concat()))
}

/// Returns the digits removed from dimensions between two types, and those added.
///
/// None if the digits that stay differ.
pub(super) fn moved(from: &DistType, to: &DistType) -> Option<(Vec<AxisPart>, Vec<AxisPart>)> {
    let (mut out, mut into) = (Vec::new(), Vec::new());
    for (before, after) in from.dims().iter().zip(to.dims()) {
        let (less, more) = (extent(&before.parts), extent(&after.parts));
        let (left, came, kept) = if less.is_multiple_of(more) {
            let (low, high) = split(&before.parts, less / more)?;
            (low, Vec::new(), high == after.parts)
        } else {
            let (low, high) = split(&after.parts, more / less)?;
            (Vec::new(), low, high == before.parts)
        };
        if !kept {
            return None;
        }
        out.extend(left);
        into.extend(came);
    }
    Some((out, into))
}
