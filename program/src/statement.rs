//! Statements: the actions of all ranks, in order.
//!
//! ```text
//! statement = Repeat n statement*       rounds, on arrays that each passes to the next one
//!           | Loop counter statement*   counter in 0..extent, the same on all ranks
//!           | Fill tile                 an output tile of identities, or the sums of a neighbour
//!           | Begin transfer            fetch a region of an input, send the output tile to its owners, or move an array
//!           | BeginFor tile n           fetch the region of another iteration, if the loop has that one
//!           | Await transfer            until it is complete
//!           | AwaitFor tile n           until the tile of another iteration is sent, if the loop has that one
//!           | Compute nest              its leaf, on tiles
//!           | ComputeInterior nest      the part of its leaf that does not read halos in flight
//!           | ComputeRims nest          the rest of its leaf
//!           | Free array                a temporary that nothing reads any more
//! ```

use crate::ids::{ArrayId, LoopId, NestId, RepeatId, TileId, TransferId};
use serde::{Deserialize, Serialize};

/// A statement of a program; see the module's grammar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Statement {
    /// Runs the body in rounds; the body has statements of whole nests and moves.
    Repeat {
        /// The number of rounds, and the arrays carried from one to the next.
        id: RepeatId,
        /// The statements of a round.
        body: Vec<Statement>,
    },
    /// Runs the body once per value of a counter, the same on all ranks.
    Loop {
        /// The nest whose loop it is.
        nest: NestId,
        /// The loop.
        counter: LoopId,
        /// The statements that it repeats.
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
    /// Starts a transfer for another iteration of the innermost loop around its reader than the current one; does nothing if the loop
    /// has no such iteration.
    BeginFor {
        /// The nest whose loop it is.
        nest: NestId,
        /// The tile into which the transfer fetches its region.
        tile: TileId,
        /// The loop.
        counter: LoopId,
        /// Its iteration.
        iteration: Iteration,
    },
    /// Waits until a transfer is complete; of those begun for several iterations, the one that began first.
    Await(TransferId),
    /// Waits until the output's tile of another iteration than the current one, whose transfer began in that iteration, has been sent,
    /// and combines the contributions received; does nothing if the loop has no such iteration.
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
    /// Runs the [interior](crate::Leaf::interior) of a nest's leaf, while halos are in flight.
    ComputeInterior(NestId),
    /// Runs the part of a nest's leaf that is not its interior.
    ComputeRims(NestId),
    /// Frees a temporary that nothing reads any more.
    Free(ArrayId),
}

/// An iteration of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iteration {
    /// The one in which the counter has this value.
    At(i64),
    /// The one this many after the current one.
    Later(i64),
    /// The one this many before the current one.
    Earlier(i64),
}

impl Statement {
    /// Returns the nest that it belongs to; none for moves, repetitions and statements that free arrays.
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
