//! Why a product cannot be planned.

use crate::TypeError;
use polyshard_layout::NotNative;
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
    /// Two types that are not of one array.
    #[error("`{from}` and `{to}` are not one array on one mesh; name, dimensions, sizes and mesh must agree")]
    Arrays { from: String, to: String },
    /// A factor that a search is to shard is sharded.
    #[error("`{array}` is to be sharded by the search but has axes; write `{whole}`, or do not let it be free")]
    Free { array: String, whole: String },
    /// Programs do not compute in the product's element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// A sequence of another product.
    #[error(
        "the sequence from `{left}` and `{right}` to `{out}` is not one of the product `{product}` over ({mesh}); take one \
         from its plan"
    )]
    OtherSequence { left: Box<str>, right: Box<str>, out: Box<str>, product: Box<str>, mesh: Box<str> },
    /// A size of a dimension that the plan does not cover.
    #[error("the size of `{name}` {why}")]
    Size { name: String, why: String },
    /// Steps that do not follow one another.
    #[error("the step `{step}` does not begin with `{last}`; give the steps in order")]
    Order { step: String, last: String },
    /// A machine with invalid numbers, or one that does not fit the mesh.
    #[error("{0}")]
    Machine(String),
    /// More axes than plans are sought over.
    #[error("{axes} axes of more than one rank; plans are sought over at most {most}: join axes of equal links")]
    Axes { axes: usize, most: usize },
    /// More dimensions than are searched with this number of axes.
    #[error(
        "{dims} dimensions over {axes} {} of more than one rank; plans are then sought over at most {most} \
         dimensions: join those that lie alike{}", if *axes == 1 { "axis" } else { "axes" },
        if *axes == 1 { "" } else { ", or join axes" }
    )]
    Dimensions { dims: usize, axes: usize, most: usize },
    /// Sizes leave no work in equal tiles that ends in the result wanted.
    #[error("no sequence of equal tiles ends in `{out}`: {why}")]
    NoSequence {
        out: String,
        /// Which size does not divide, and what to do.
        why: String,
    },
    /// No sequence fits into a device's memory.
    #[error("no sequence fits into {capacity} bytes per device: `{sequence}` takes least, {least} bytes; {advice}")]
    Memory {
        /// The bytes that a device has.
        capacity: u128,
        /// The bytes of the sequence that takes least.
        least: u128,
        sequence: String,
        advice: String,
    },
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
