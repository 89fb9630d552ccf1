//! Errors of distributed arrays.

use crate::layout::{Sharding, joined};

/// Why an array cannot be distributed, or its elements cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ArrayError {
    /// The shapes of the array and its sharding differ.
    #[error("an array of shape {shape:?} does not fit a sharding of shape {sharding:?}; make the shapes equal")]
    Shape { shape: Vec<usize>, sharding: Vec<usize> },
    /// The array has 2^63 bytes or more.
    #[error("the bytes of an array of shape {shape:?} do not fit in 63 bits; make it smaller")]
    TooLarge { shape: Vec<usize> },
    /// The elements are partial sums, but the call needs their values.
    #[error(
        "an array sharded {sharding} cannot be {purpose}: its elements are partial sums along {}; `redistribute` it \
         to a sharding without `partial` first",
        joined(sharding.partial_axes(), ", ")
    )]
    OpenSums {
        sharding: Box<Sharding>,
        /// The rest of "the array cannot be ..".
        purpose: &'static str,
    },
}
