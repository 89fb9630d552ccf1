//! Errors of redistributions.

use crate::layout::{Sharding, SumsError};
use polyshard_program::RouteError;

/// Why an array cannot be redistributed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum RedistributionError {
    /// Source and target have different shapes.
    #[error(
        "an array of shape {source_shape:?} cannot be redistributed to a sharding of shape {target_shape:?}; a \
         redistribution keeps the shape"
    )]
    Shape { source_shape: Vec<usize>, target_shape: Vec<usize> },
    /// The partial sums of the source cannot become those of the target.
    #[error(transparent)]
    Sums(#[from] SumsError),
    /// The route is invalid for the array.
    #[error("invalid route: {0}; `Redistribution::new` chooses a valid one")]
    Route(#[from] RouteError),
    /// Moving part of an array of partial sums.
    #[error(
        "cannot move part of an array sharded {sharding}: its elements are partial sums; use `Redistribution::new`, \
         which adds them"
    )]
    PartOfSums { sharding: Box<Sharding> },
    /// The sharding to keep gives a rank elements that it does not hold.
    #[error(
        "rank {rank} keeps {len} elements by {kept}, but does not hold all of them by {held}; give a sharding in \
         which each rank owns a part of its elements"
    )]
    NotHeld { rank: usize, len: usize, kept: Box<Sharding>, held: Box<Sharding> },
    /// The array has another sharding than the redistribution's source.
    #[error(
        "an array {}, cannot be the input of a redistribution that takes arrays {}; make one for this array's sharding",
        layout(.given),
        layout(.wanted)
    )]
    Input { given: Box<Sharding>, wanted: Box<Sharding> },
    /// The array to write has another sharding than the redistribution's target.
    #[error(
        "an array {}, cannot be the output of a redistribution that makes arrays {}; get the array from `output`",
        layout(.given),
        layout(.wanted)
    )]
    Output { given: Box<Sharding>, wanted: Box<Sharding> },
    /// Ranks that exchange elements share no memory.
    #[error("cannot redistribute through shared memory: ranks {rank} and {other} share none; use `Transport::Auto`")]
    Apart {
        rank: usize,
        /// A rank that it exchanges elements with.
        other: usize,
    },
    /// The input of a rank is not in shared memory.
    #[error(
        "cannot redistribute through shared memory: the input of rank {rank} is in private memory; use `Transport::Auto`"
    )]
    PrivateInput { rank: usize },
}

fn layout(sharding: &Sharding) -> String {
    format!("of shape {:?} over ({}), sharded {sharding}", sharding.shape(), sharding.mesh())
}
