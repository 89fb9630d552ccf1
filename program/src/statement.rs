//! Statements: the actions of all ranks, in order.
//!
//! ```text
//! statement = Rounds rounds statement*   repeated, on arrays that each round passes to the next one
//!           | Loop loop statement*       counter in 0..extent, the same on all ranks
//!           | Fill transfer              an output tile of identities, or the sums of a neighbour
//!           | Begin transfer at          fetch a region of an input, send the output's tile to its owners, or move an array
//!           | End transfer at            wait until it is complete
//!           | Compute kernel part        its leaf, on tiles
//!           | Free array                 a temporary that nothing reads any more
//! ```
//!
//! Any order is legal in which each begin has one end, no buffer is written while it is in flight or still read, and data is read only
//! after its transfer has ended; the check of programs verifies this.

use crate::ids::{ArrayId, KernelId, LoopId, RoundsId, TransferId, is_default};
use serde::{Deserialize, Serialize};

/// A statement of a program; see the module's grammar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Statement {
    /// Runs statements in rounds; among them are all statements of a kernel or none, and both ends of a move or none.
    Rounds(RoundsId, Vec<Statement>),
    /// Runs statements once per value of a counter, the same on all ranks. Kernels whose loop it is may both have statements in it.
    Loop(LoopId, Vec<Statement>),
    /// Fills an output's tile with the identity of its kernel's operation, or takes over the sums of a neighbour.
    Fill(TransferId),
    /// Starts a transfer.
    Begin(TransferId, At),
    /// Waits until a transfer is complete; of those in flight for several iterations, the one that began first.
    End(TransferId, At),
    /// Runs the leaf of a kernel, or a part of it: its [interior](crate::Leaf::interior) while halos are in flight, then its rims.
    Compute(KernelId, LeafPart),
    /// Frees a temporary that nothing reads any more.
    Free(ArrayId),
}

/// Which iterations of a leaf are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeafPart {
    /// All.
    Whole,
    /// Those of the interior.
    Interior,
    /// All others.
    Rims,
}

/// For which iteration, and in which rounds, a transfer begins or ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// The iteration of the innermost loop around the tile; if the loop has no such iteration, nothing happens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub iteration: Iteration,
    /// Whether it happens in the first of the rounds around it only: no round writes the array, so the tile holds the data in later
    /// rounds, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_round: bool,
}

/// An iteration of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iteration {
    /// The current one.
    #[default]
    Now,
    /// The one in which the counter has this value.
    At(i64),
    /// The one this many after the current one.
    Later(i64),
    /// The one this many before the current one.
    Earlier(i64),
}

impl Iteration {
    /// Returns the value that the counter has in it, if the current one is `now`.
    #[must_use]
    pub fn counter(self, now: i64) -> i64 {
        match self {
            Self::Now => now,
            Self::At(value) => value,
            Self::Later(by) => now.saturating_add(by),
            Self::Earlier(by) => now.saturating_sub(by),
        }
    }
}

impl At {
    /// In the current iteration, in each round.
    pub const NOW: Self = Self { iteration: Iteration::Now, first_round: false };
}

impl From<Iteration> for At {
    fn from(iteration: Iteration) -> Self {
        Self { iteration, first_round: false }
    }
}

impl Statement {
    /// Returns the begin of a transfer in the current iteration, and its end.
    #[must_use]
    pub fn both(transfer: TransferId) -> [Self; 2] {
        [Self::Begin(transfer, At::NOW), Self::End(transfer, At::NOW)]
    }

    /// Calls `visit` for it and all statements inside it, the outer ones first.
    pub fn visit(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        if let Self::Rounds(_, body) | Self::Loop(_, body) = self {
            body.iter().for_each(|statement| statement.visit(visit));
        }
    }

    /// Calls `visit` for it and all statements inside it, the outer ones first, to change them.
    pub fn visit_mut(&mut self, visit: &mut impl FnMut(&mut Self)) {
        visit(self);
        if let Self::Rounds(_, body) | Self::Loop(_, body) = self {
            body.iter_mut().for_each(|statement| statement.visit_mut(visit));
        }
    }
}
