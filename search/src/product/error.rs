//! Why a product cannot be planned.

use polyshard_planner::cost::CostError;
use polyshard_planner::{SequenceError, TypeError};
use polyshard_polyhedral::LowerError;
use std::fmt;

/// Why a product cannot be planned.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ProductError {
    /// The text is not a product.
    #[error("cannot read `{text}`: {why}; write `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]`")]
    Syntax { text: String, why: String },
    /// An array of the product is invalid.
    #[error("in `{array}`: {error}")]
    Array { array: String, error: TypeError },
    /// A dimension does not fit a product.
    #[error("dimension `{name}` {why}")]
    Dimension { name: String, why: String },
    /// An array is invalid in any product.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A factor that the search shards has axes.
    #[error("the search shards `{array}`, but it has axes; write `{whole}`, or keep its sharding fixed")]
    Free { array: String, whole: String },
    /// The placement is of another mesh.
    #[error("the product is over the mesh ({mesh}), but the placement is of ({placed}); place the product's mesh")]
    Mesh { mesh: String, placed: String },
    /// More dimensions than are searched with this number of axes.
    #[error(
        "{dims} dimensions over {axes} axes of more than one rank have more than {most} layouts; join axes with equal \
         links, or dimensions with equal shardings"
    )]
    Ways { dims: usize, axes: usize, most: usize },
    /// No sequence ends in the wanted result.
    #[error("no product ends in `{out}`: {why}")]
    NoSequence { out: String, why: String },
    /// No sequence fits into a device's memory.
    #[error("no sequence fits into {capacity} bytes per device: `{sequence}`, the smallest, takes {least}; {advice}")]
    Memory {
        /// The bytes that a device has.
        capacity: u64,
        /// The bytes of the smallest sequence.
        least: u64,
        sequence: String,
        advice: String,
    },
    /// The machine lacks a figure of the cost model.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// The program of a sequence is refused.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The program of a sequence does not fit together.
    #[error(transparent)]
    Program(#[from] Box<SequenceError>),
}

impl ProductError {
    /// An error of an array of a product; errors of unreduced axes name the array already.
    pub(super) fn of_array(text: &str, error: TypeError) -> Self {
        match error {
            TypeError::Unreduced { .. } => Self::Type(error),
            error => Self::Array { array: text.trim().to_owned(), error },
        }
    }
}

// `fn main() -> Result<_, _>` prints `Debug`, so `Debug` is the message.
impl fmt::Debug for ProductError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
