//! The groups and permutations of ranks that exchange, as formulas over digits of coordinates.
//!
//! An all-to-all removes digits from some dimensions and adds digits to others. Where both are the same, a group is the
//! ranks that differ in these digits. Where they are not, each removed digit is paired with an added one, and both
//! change together in a group: if `x` is removed and `r`, so far replicating, is added, the ranks on a diagonal of the
//! `x`, `r` plane hold all pieces together, and each knows which one it receives.

use crate::DistType;
use crate::part::{AxisPart, atoms, extent, split};
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
    let (leaving, coming) = (refined(out, into)?, refined(into, out)?);
    let mut open: Vec<AxisPart> = coming.iter().copied().filter(|part| !leaving.contains(part)).collect();
    let mut diagonals = Vec::with_capacity(leaving.len());
    for part in leaving {
        if coming.contains(&part) {
            diagonals.push(Diagonal(vec![part]));
            continue;
        }
        let partner = open.iter().position(|other| other.extent == part.extent)?;
        diagonals.push(Diagonal(vec![part, open.remove(partner)]));
    }
    open.is_empty().then_some(diagonals)
}

/// Returns the ranks of the group of `rank`, ascending.
pub(super) fn members(mesh: &Mesh, diagonals: &[Diagonal], rank: usize) -> Vec<usize> {
    let strides = strides(mesh);
    let coordinates = mesh.coordinates(rank);
    let mut members = vec![rank as isize];
    for Diagonal(parts) in diagonals {
        let extent = parts[0].extent;
        let shift = |by: usize| {
            let moved = parts.iter().map(|part| {
                let digit = part.digit(&coordinates);
                let change = ((digit + by) % extent) as isize - digit as isize;
                change * (part.stride * strides[part.axis]) as isize
            });
            moved.sum::<isize>()
        };
        let shifts: Vec<_> = (0..extent).map(shift).collect();
        members = members.iter().flat_map(|member| shifts.iter().map(move |shift| member + shift)).collect();
    }
    let mut members: Vec<_> = members.into_iter().map(|member| member as usize).collect();
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
        Self { from, to, free: pairs(free(from), free(to)) }
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

/// Pairs digits of equal extents: a digit with itself where possible.
fn pairs(left: Vec<AxisPart>, right: Vec<AxisPart>) -> Vec<(AxisPart, AxisPart)> {
    let (same, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|part| right.contains(part));
    let mut open: Vec<_> = right.into_iter().filter(|part| !same.contains(part)).collect();
    let mut pairs: Vec<_> = same.into_iter().map(|part| (part, part)).collect();
    for part in left {
        let partner = open.iter().position(|other| other.extent == part.extent);
        pairs.push((part, open.remove(partner.expect("both sides have the same factors: this is a bug in polyshard"))));
    }
    pairs
}

/// The digits of prime extent that replicate.
fn free(dist_type: &DistType) -> Vec<AxisPart> {
    let mesh = dist_type.mesh();
    let mut free = Vec::new();
    for axis in 0..mesh.ndim() {
        let mut used: Vec<_> = dist_type.parts().filter(|part| part.axis == axis).collect();
        used.sort_by_key(|part| part.stride);
        let mut from = 1;
        for (stride, next) in used
            .iter()
            .map(|part| (part.stride, part.stride * part.extent))
            .chain([(mesh.as_slice()[axis].extent, mesh.as_slice()[axis].extent)])
        {
            free.push(AxisPart { axis, stride: from, extent: stride / from });
            from = next;
        }
    }
    atoms(&free)
}

/// Digits of prime extent, also divided where digits of `other` begin or end.
fn refined(parts: &[AxisPart], other: &[AxisPart]) -> Option<Vec<AxisPart>> {
    let mut merged: Vec<AxisPart> = parts.to_vec();
    merged.sort_unstable();
    let merged = crate::part::joined(merged);
    let mut refined = Vec::new();
    for part in merged {
        let end = part.stride * part.extent;
        let mut others: Vec<_> = other.iter().copied().filter(|other| other.axis == part.axis).collect();
        others.sort_unstable();
        let others = crate::part::joined(others);
        let mut cuts: Vec<_> = others
            .iter()
            .flat_map(|other| [other.stride, other.stride * other.extent])
            .filter(|&cut| part.stride < cut && cut < end)
            .collect();
        cuts.push(end);
        cuts.sort_unstable();
        cuts.dedup();
        let mut from = part.stride;
        for cut in cuts {
            if !cut.is_multiple_of(from) {
                return None;
            }
            refined.extend(atoms(&[AxisPart { axis: part.axis, stride: from, extent: cut / from }]));
            from = cut;
        }
    }
    Some(refined)
}

/// The change of the rank per unit of each coordinate.
fn strides(mesh: &Mesh) -> Vec<usize> {
    let mut strides = vec![1; mesh.ndim()];
    for axis in (1..mesh.ndim()).rev() {
        strides[axis - 1] = strides[axis] * mesh.as_slice()[axis].extent;
    }
    strides
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
