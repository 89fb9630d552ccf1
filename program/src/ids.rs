//! Numbers of what a program is made of, each a type of its own.

use serde::{Deserialize, Serialize};

/// The number of an array of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArrayId(pub usize);

/// The number of a nest of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NestId(pub usize);

/// The number of a move of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MoveId(pub usize);

/// The number of a loop of a nest: how many are around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoopId(pub usize);

/// The number of a transfer of a nest, and of its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TileId(pub usize);

/// A transfer of a program, by what is at the other end of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TransferId {
    /// A tile of a nest.
    Tile {
        /// The nest.
        nest: NestId,
        /// Its tile.
        tile: TileId,
    },
    /// Another array.
    Array(MoveId),
}
