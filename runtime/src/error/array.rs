//! What can be wrong with a distributed array.

use super::joined;
use crate::layout::Sharding;

/// Why an array cannot be distributed, or its elements cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum ArrayError {
    /// The array has another shape than the sharding that is to lay it out.
    #[error("an array of shape {shape:?} cannot be laid out by a sharding of shape {sharding:?}; make both the same")]
    Shape { shape: Vec<usize>, sharding: Vec<usize> },
    /// The array has 2^63 bytes or more.
    #[error("an array of shape {shape:?} has more bytes than 63 bits count; make it smaller")]
    TooLarge { shape: Vec<usize> },
    /// The elements are partial sums, but what is asked for needs their values.
    #[error(
        "an array sharded {sharding} cannot be {purpose}: its elements are sums that are still open along {}; close \
         them first, by `redistribute` to a sharding without `partial`",
        joined(&sharding.partial_axes())
    )]
    OpenSums {
        sharding: Box<Sharding>,
        /// What is asked for, after "the array cannot be".
        purpose: &'static str,
    },
}
