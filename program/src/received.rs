//! What one rank receives by a leg, whatever it leads between, and whether it is counted or bounded.

use crate::expr::Expr;
use crate::nest::{CollectiveBy, Direction, Leg, Owners};
use crate::reduction::Procedure;
use polyshard_layout::{Neighbours, Stages};

/// A rank that receives something by a leg. What it reads or writes on the other side than the owners is its tile; all are bytes.
pub(crate) trait Receiver {
    /// Returns the whole tile.
    fn whole(&self) -> u64;
    /// Returns whether it is at these coordinates along these axes, or along all. Of ranks that are not gone through, none is.
    fn is_at(&self, axes: Option<&[usize]>, at: &[Expr]) -> bool;
    /// Returns the part of the tile that the rank does not have, of what is in reach.
    fn lacking(&self, reach: &Neighbours) -> u64;
    /// Returns the part of the tile that the rank does not have, but others along these axes, who own it together.
    fn gathered(&self, axes: &[usize]) -> u64;
    /// Returns what others, along these axes, have of the part of the tile that the rank owns.
    fn terms_of_part(&self, axes: &[usize]) -> u64;
    /// Returns what the rank receives of sums along these axes that are wanted at one of its members, or at all.
    fn sums(&self, axes: &[usize], root: Option<&[Expr]>) -> u64;
    /// Returns what it receives of such sums in stages.
    fn sums_in_stages(&self, axes: &[usize], owners: &Owners, stages: &Stages) -> u64;
    /// Returns what it receives of them by a procedure.
    fn sums_by(&self, procedure: &Procedure) -> u64;
    /// Returns the tile of the rank that writes what this one owns, if each rank writes what the one at `owner` owns.
    fn written_by_one(&self, owner: &[Expr], served: &[Expr]) -> u64;
    /// Returns what others in reach write of what this rank owns.
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
        (Leg::Halo { reach } | Leg::Exchange { reach }, Direction::In) => rank.lacking(reach),
        (Leg::Collective { axes, owners, by: Some(CollectiveBy::Stages(stages)) }, Direction::Out { .. }) => {
            rank.sums_in_stages(axes, owners, stages)
        }
        (Leg::Collective { by: Some(CollectiveBy::Procedure(procedure)), .. }, Direction::Out { .. }) => {
            rank.sums_by(procedure)
        }
        (Leg::Collective { axes, owners, by: None }, Direction::Out { .. }) => match owners {
            Owners::Parts => rank.terms_of_part(axes),
            Owners::One(root) => rank.sums(axes, Some(root)),
            Owners::All => rank.sums(axes, None),
        },
        (Leg::Permute { owner, served }, Direction::Out { .. }) => rank.written_by_one(owner, served),
        (Leg::Halo { reach } | Leg::Exchange { reach }, Direction::Out { .. }) => rank.written_by_others(reach),
    }
}
