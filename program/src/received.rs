//! Bytes that one rank receives by a leg, for transfers and moves, counted or bounded.

use crate::expr::Expr;
use crate::nest::{Algorithm, Direction, Leg, Owners};
use crate::reduction::Procedure;
use polyshard_layout::{Neighbours, Stages};

/// A rank that receives by a leg. Its tile is the data that it reads or writes at the end away from the owners; all numbers are
/// bytes.
pub(crate) trait Receiver {
    /// Returns the whole tile.
    fn whole(&self) -> u64;
    /// Returns whether it is at these coordinates along these axes, or along all; false for ranks that are not examined
    /// individually.
    fn is_at(&self, axes: Option<&[usize]>, at: &[Expr]) -> bool;
    /// Returns the part of the tile that the rank lacks, of the elements in reach.
    fn lacking(&self, reach: &Neighbours) -> u64;
    /// Returns the part of the tile that the rank lacks, and that others along these axes own together.
    fn gathered(&self, axes: &[usize]) -> u64;
    /// Returns the terms that others, along these axes, have of the part of the tile that the rank owns.
    fn terms_of_part(&self, axes: &[usize]) -> u64;
    /// Returns the bytes that the rank receives of sums along these axes that one of its members wants, or all.
    fn sums(&self, axes: &[usize], root: Option<&[Expr]>) -> u64;
    /// Returns the bytes that it receives of such sums in stages.
    fn sums_in_stages(&self, axes: &[usize], owners: &Owners, stages: &Stages) -> u64;
    /// Returns the bytes that it receives of them by a procedure.
    fn sums_by(&self, procedure: &Procedure) -> u64;
    /// Returns the tile of the rank that writes this rank's elements, if each rank writes the elements that the one at `owner`
    /// owns.
    fn written_by_one(&self, owner: &[Expr], served: &[Expr]) -> u64;
    /// Returns the bytes that others in reach write of this rank's elements.
    fn written_by_others(&self, reach: &Neighbours) -> u64;
}

/// Returns the bytes that a rank receives by a leg.
pub(crate) fn received(leg: &Leg, direction: Direction, rank: &impl Receiver) -> u64 {
    match (leg, direction) {
        // A shift is between tiles.
        (Leg::InPlace | Leg::Copy | Leg::Shift(_), _) => 0,
        (Leg::Collective { owners: Owners::All, .. }, Direction::In) => 0,
        (Leg::Collective { axes, owners: Owners::One(root), .. }, Direction::In) => {
            if rank.is_at(Some(axes), root) {
                0
            } else {
                rank.whole()
            }
        }
        (Leg::Permute { owner, .. }, Direction::In) => {
            if rank.is_at(None, owner) {
                0
            } else {
                rank.whole()
            }
        }
        (Leg::Collective { axes, owners: Owners::Parts, .. }, Direction::In) => rank.gathered(axes),
        (Leg::Halo { reach } | Leg::Exchange { reach, .. }, Direction::In) => rank.lacking(reach),
        (Leg::Collective { axes, owners, by: Algorithm::Stages(stages) }, Direction::Out { .. }) => {
            rank.sums_in_stages(axes, owners, stages)
        }
        (Leg::Collective { by: Algorithm::Procedure(procedure), .. }, Direction::Out { .. }) => rank.sums_by(procedure),
        (Leg::Collective { axes, owners, .. }, Direction::Out { .. }) => match owners {
            Owners::Parts => rank.terms_of_part(axes),
            Owners::One(root) => rank.sums(axes, Some(root)),
            Owners::All => rank.sums(axes, None),
        },
        (Leg::Permute { owner, served }, Direction::Out { .. }) => rank.written_by_one(owner, served),
        (Leg::Halo { reach } | Leg::Exchange { reach, .. }, Direction::Out { .. }) => rank.written_by_others(reach),
    }
}
