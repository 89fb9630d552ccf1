//! What one rank packs and receives by a leg besides tiles and arrays, whatever it leads between.

use crate::nest::{CollectiveBy, Direction, Leg, Owners};
use polyshard_layout::Mesh;

/// The most bytes of a piece that is scattered that go in one message between two ranks. Smaller ones make ranks wait for each other more
/// often, larger ones leave the cache.
pub const CHUNK: u64 = 1 << 20;

/// What a leg carries, in bytes of the rank that has most.
pub(crate) struct Staging<'a> {
    /// The mesh of which the leg names axes.
    pub mesh: &'a Mesh,
    /// What the rank has on the other side than the owners.
    pub tile: u64,
    /// The most of it that one owner has.
    pub part: u64,
    /// Whether each member of a group sums up a piece.
    pub in_pieces: bool,
    /// Whether messages are in flight while something is computed.
    pub is_under_way: bool,
    /// Whether pieces are packed and unpacked as a whole.
    pub are_whole: bool,
    /// Maximum number of ranks with which it exchanges pieces at the same time, if not all in reach.
    pub at_once: Option<u64>,
    /// How the parts that ranks along axes own lie.
    pub parts_along: &'a dyn Fn(&[usize]) -> Parts,
    /// The elements of the tile, and the bytes of each.
    pub elements: usize,
    pub element: u64,
}

/// How the parts of a tile lie that the members of a group own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// One after the other in the tile, and together where their owners have them.
    Together,
    /// One after the other in the tile, but perhaps scattered where their owners have them.
    InOrder,
    /// They may interleave.
    Interleaved,
}

/// Returns the bytes that a rank packs and receives by a leg.
pub(crate) fn staged(leg: &Leg, direction: Direction, staging: &Staging<'_>) -> u64 {
    let &Staging { mesh, tile, part, is_under_way, .. } = staging;
    match (leg, direction) {
        (Leg::InPlace | Leg::Copy, _) => 0,
        (Leg::Collective { owners: Owners::One(_) | Owners::All, .. }, Direction::In) => 0,
        // What a stage gathers lies apart from what the one before gathered.
        (Leg::Collective { owners: Owners::Parts, by: Some(_), .. }, Direction::In) => tile.saturating_mul(2),
        (Leg::Collective { axes, owners: Owners::Parts, .. }, Direction::In) => match (staging.parts_along)(axes) {
            // Parts are received where they belong, and sent from where they lie.
            Parts::Together if !is_under_way => 0,
            Parts::InOrder if !is_under_way => part,
            _ => tile.saturating_add(part),
        },
        // The terms of a stage, what they add up to, and the contributions to a part of it.
        (Leg::Collective { owners: Owners::Parts, by: Some(_), .. }, Direction::Out { .. }) => tile.saturating_mul(3),
        (Leg::Collective { by: Some(CollectiveBy::Procedure(procedure)), .. }, Direction::Out { .. }) => {
            (procedure.most_staged(staging.elements) as u64).saturating_mul(staging.element)
        }
        // The members' contributions to one piece, and the piece; or the others' tiles, and what is sent.
        (Leg::Collective { axes, owners: Owners::One(_) | Owners::All, .. }, Direction::Out { any_order }) => {
            let is_whole = !any_order && !staging.in_pieces;
            tile.saturating_mul(if is_whole { mesh.group_size(axes) } else { 2 })
        }
        // The others' contributions to one part, and the parts one after the other unless they are in the tile.
        (Leg::Collective { axes, owners: Owners::Parts, .. }, Direction::Out { any_order: false }) if !is_under_way => {
            let received = (mesh.group_size(axes) - 1).saturating_mul(part);
            let is_packed = (staging.parts_along)(axes) == Parts::Interleaved;
            received.saturating_add(if is_packed { tile } else { 0 })
        }
        // The parts one after the other, the contributions to one of them, and the part.
        (Leg::Collective { owners: Owners::Parts, .. }, Direction::Out { .. }) => {
            tile.saturating_mul(2).saturating_add(part)
        }
        // What is not contiguous in the shard is packed before it is sent.
        (Leg::Permute { .. } | Leg::Shift(_), Direction::In) => part,
        // What leaves while others are computed is sent from messages.
        (Leg::Permute { .. }, Direction::Out { .. }) if is_under_way => tile.saturating_mul(2),
        (Leg::Permute { .. } | Leg::Shift(_), Direction::Out { .. }) => tile,
        (Leg::Halo { reach } | Leg::Exchange { reach }, direction) => {
            let others = staging.at_once.unwrap_or_else(|| mesh.others_in_reach(reach) as u64);
            // A chunk of each piece is packed and unpacked at a time, unless it is there whole.
            let chunks = others.saturating_mul(if staging.are_whole { part } else { part.min(CHUNK) });
            chunks.saturating_add(match direction {
                Direction::In => tile.min(chunks),
                // What comes is combined when all of it is there.
                Direction::Out { .. } => others.saturating_mul(part),
            })
        }
    }
}
