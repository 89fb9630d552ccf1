//! What can be wrong with how a reduction is used.

use crate::comm::plural;
use crate::layout::{DType, Sharding};
use polyshard_program::reduction::{ReductionError, listed};

/// Why a reduction cannot run on the ranks and arrays that it is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum ReductionRunError {
    /// The reduction is for more or fewer ranks than the world has.
    #[error("the reduction is for {}, but the program runs on {size}", plural(*.ranks, "rank"))]
    Ranks { ranks: usize, size: usize },
    /// The array has more or fewer elements than the reduction is made for.
    #[error("an array of {given} elements is given to a reduction of {elements}; make one for {given}")]
    Length { given: usize, elements: usize },
    /// A reduction of more elements than an array can have.
    #[error("no array has {elements} elements of `{dtype}`; give at most {max}")]
    TooLong {
        elements: usize,
        dtype: DType,
        /// The most elements that an array of that type can have.
        max: usize,
    },
    /// The groups are not those along the axes that the target closes.
    #[error(
        "an array sharded {from} does not become one sharded {to} by a reduction in the groups {}; give those along the \
         axes that are closed",
        listed(.groups)
    )]
    Groups { from: Box<Sharding>, to: Box<Sharding>, groups: Vec<Vec<usize>> },
    /// The steps break a rule of reductions.
    #[error(transparent)]
    Steps(#[from] Box<ReductionError>),
}
