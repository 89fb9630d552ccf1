//! Bytes that one rank packs and receives by a leg, for transfers and moves, in addition to tiles and arrays.

use crate::nest::{Algorithm, Direction, Leg, Owners};
use polyshard_layout::Mesh;

/// Maximum bytes of a scattered piece in one message between two ranks. Smaller messages make ranks wait for each other more often,
/// larger ones exceed the cache.
pub const CHUNK: u64 = 1 << 20;

/// The data that a leg carries, in bytes of the rank with the most.
pub(crate) struct Staging<'a> {
    /// The mesh of which the leg names axes.
    pub mesh: &'a Mesh,
    /// The rank's data at the end away from the owners.
    pub tile: u64,
    /// The largest part of it that one owner has.
    pub part: u64,
    /// Whether messages are in flight during computation.
    pub is_under_way: bool,
    /// Whether pieces are packed and unpacked as a whole.
    pub are_whole: bool,
    /// Maximum number of ranks with which it exchanges pieces at the same time, if not all in reach.
    pub at_once: Option<u64>,
    /// How the parts that ranks along axes own are laid out.
    pub parts_along: &'a dyn Fn(&[usize]) -> Parts,
    /// The elements of the tile, and the bytes of each.
    pub elements: usize,
    pub element: u64,
}

/// The layout of the parts of a tile that the members of a group own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// One after the other in the tile, and contiguous at their owners.
    Together,
    /// One after the other in the tile, but perhaps scattered at their owners.
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
        // A stage gathers into other memory than the stage before.
        (Leg::Collective { owners: Owners::Parts, by: Algorithm::Stages(_), .. }, Direction::In) => {
            tile.saturating_mul(2)
        }
        (Leg::Collective { axes, owners: Owners::Parts, .. }, Direction::In) => match (staging.parts_along)(axes) {
            // Parts are received and sent in place.
            Parts::Together if !is_under_way => 0,
            Parts::InOrder if !is_under_way => part,
            _ => tile.saturating_add(part),
        },
        // The terms of a stage, their sum, and the contributions to a part of it.
        (Leg::Collective { owners: Owners::Parts, by: Algorithm::Stages(_), .. }, Direction::Out { .. }) => {
            tile.saturating_mul(3)
        }
        (Leg::Collective { by: Algorithm::Procedure(procedure), .. }, Direction::Out { .. }) => {
            (procedure.most_staged(staging.elements) as u64).saturating_mul(staging.element)
        }
        // The members' contributions to one piece, and the piece; or the others' tiles, and the data to send.
        (Leg::Collective { axes, owners: Owners::One(_) | Owners::All, by }, Direction::Out { .. }) => {
            tile.saturating_mul(if *by == Algorithm::GatherTerms { mesh.group_size(axes) } else { 2 })
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
        // Data that is not contiguous in the shard is packed before it is sent.
        (Leg::Permute { .. } | Leg::Shift(_), Direction::In) => part,
        // An output that is in flight during computation is sent from messages.
        (Leg::Permute { .. }, Direction::Out { .. }) if is_under_way => tile.saturating_mul(2),
        (Leg::Permute { .. } | Leg::Shift(_), Direction::Out { .. }) => tile,
        (Leg::Halo { reach } | Leg::Exchange { reach, .. }, direction) => {
            let others = staging.at_once.unwrap_or_else(|| mesh.others_in_reach(reach) as u64);
            // One chunk of each piece is packed and unpacked at a time, unless pieces are packed whole.
            let chunks = others.saturating_mul(if staging.are_whole { part } else { part.min(CHUNK) });
            chunks.saturating_add(match direction {
                Direction::In => tile.min(chunks),
                // Contributions are combined when all of them have arrived.
                Direction::Out { .. } => others.saturating_mul(part),
            })
        }
    }
}
