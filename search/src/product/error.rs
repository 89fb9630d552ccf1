//! Why a product cannot be planned.

use polyshard_planner::cost::CostError;
use polyshard_planner::{SequenceError, TypeError};
use polyshard_polyhedral::LowerError;
use std::fmt;

/// Why a product cannot be planned: what the user gave, or what does not fit.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum ProductError {
    /// The text is not a product.
    #[error("cannot read `{text}`: {why}; write `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]`")]
    Syntax { text: String, why: String },
    /// An array of the product is invalid.
    #[error("in `{array}`: {error}")]
    Array { array: String, error: TypeError },
    /// Dimensions that make no product.
    #[error("dimension `{name}` {why}")]
    Dimension { name: String, why: String },
    /// An array that is invalid by itself.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A factor that a search is to shard is sharded.
    #[error("`{array}` is to be sharded by the search but has axes; write `{whole}`, or do not let it be free")]
    Free { array: String, whole: String },
    /// The mesh that is placed is another one.
    #[error("the product is over the mesh ({mesh}), but ({placed}) is placed; place the product's mesh")]
    Mesh { mesh: String, placed: String },
    /// More dimensions than are searched with this number of axes.
    #[error(
        "{dims} dimensions over {axes} axes of more than one rank have more than {most} ways to be laid out; join axes of equal \
         links, or dimensions that lie alike"
    )]
    Ways { dims: usize, axes: usize, most: usize },
    /// No way ends in the result wanted.
    #[error("no product ends in `{out}`: {why}")]
    NoSequence { out: String, why: String },
    /// No sequence fits into a device's memory.
    #[error("no sequence fits into {capacity} bytes per device: `{sequence}` takes least, {least} bytes; {advice}")]
    Memory {
        /// The bytes that a device has.
        capacity: u64,
        /// The bytes of the sequence that takes least.
        least: u64,
        sequence: String,
        advice: String,
    },
    /// What the machine says no price of.
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
    /// What is wrong with an array of a product; what is said of open sums names it already.
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
