//! Statements: what all ranks do, in which order.
//!
//! ```text
//! statement = Repeat n statement*       rounds, on arrays that each leaves to the next one
//!           | Loop counter statement*   counter in 0..extent, the same on all ranks
//!           | Fill tile                 an output tile of identities, or the sums of a neighbour
//!           | Begin transfer            bring a region of an input here, or the output tile to its owners; or move an array
//!           | BeginFor tile n           bring the region of another iteration here, if the loop has that one
//!           | Await transfer            until it is there
//!           | AwaitFor tile n           until the tile of another iteration has left, if the loop has that one
//!           | Compute nest              its leaf, on tiles
//!           | ComputeInterior nest      of its leaf, what reads nothing of the halos that are coming
//!           | ComputeRims nest          all else of its leaf
//!           | Free array                a temporary that nothing reads any more
//! ```

use crate::ids::{ArrayId, LoopId, NestId, RepeatId, TileId, TransferId};
use serde::{Deserialize, Serialize};

/// A statement of a program; see the module's grammar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Statement {
    /// Runs the body in rounds; it stands around statements of whole nests and moves.
    Repeat {
        /// How often, and what goes from one round to the next.
        id: RepeatId,
        /// What each round does.
        body: Vec<Statement>,
    },
    /// Runs the body once per value of a counter, the same on all ranks.
    Loop {
        /// The nest whose loop it is.
        nest: NestId,
        /// The loop.
        counter: LoopId,
        /// What it repeats.
        body: Vec<Statement>,
    },
    /// Fills an output tile with the identity of its kernel's operation, or takes over the sums of a neighbour.
    Fill {
        /// The nest whose tile it is.
        nest: NestId,
        /// The tile.
        tile: TileId,
    },
    /// Starts a transfer.
    Begin(TransferId),
    /// Starts a transfer for another iteration of the innermost loop around what reads it than the present one; does nothing if the
    /// loop has no such iteration.
    BeginFor {
        /// The nest whose loop it is.
        nest: NestId,
        /// The tile that the transfer brings its region to.
        tile: TileId,
        /// The loop.
        counter: LoopId,
        /// Its iteration.
        iteration: Iteration,
    },
    /// Waits until a transfer is done; of those that began for several iterations, the one that began first.
    Await(TransferId),
    /// Waits until the output's tile of another iteration than the present one has left, which began in that one, and combines what has
    /// come; does nothing if the loop has no such iteration.
    AwaitFor {
        /// The nest whose loop it is.
        nest: NestId,
        /// The tile.
        tile: TileId,
        /// The loop.
        counter: LoopId,
        /// Its iteration.
        iteration: Iteration,
    },
    /// Runs the leaf of a nest.
    Compute(NestId),
    /// Runs the [interior](crate::Leaf::interior) of a nest's leaf, while halos come.
    ComputeInterior(NestId),
    /// Runs what of a nest's leaf is not its interior.
    ComputeRims(NestId),
    /// Gives back a temporary that nothing reads any more.
    Free(ArrayId),
}

/// An iteration of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iteration {
    /// The one in which the counter has this value.
    At(i64),
    /// The one that comes this many after the present one.
    Later(i64),
    /// The one that came this many before the present one.
    Earlier(i64),
}

impl Statement {
    /// Returns the nest that it is of; none of a move's, and of what frees an array.
    #[must_use]
    pub fn nest(&self) -> Option<NestId> {
        match *self {
            Self::Loop { nest, .. }
            | Self::Fill { nest, .. }
            | Self::BeginFor { nest, .. }
            | Self::AwaitFor { nest, .. }
            | Self::Compute(nest)
            | Self::ComputeInterior(nest)
            | Self::ComputeRims(nest) => Some(nest),
            Self::Begin(TransferId::Tile { nest, .. }) | Self::Await(TransferId::Tile { nest, .. }) => Some(nest),
            Self::Repeat { .. }
            | Self::Begin(TransferId::Array(_))
            | Self::Await(TransferId::Array(_))
            | Self::Free(_) => None,
        }
    }
}
