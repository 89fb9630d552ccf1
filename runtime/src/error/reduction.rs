//! Errors of running reductions.

use crate::layout::{DType, counted};
use polyshard_program::reduction::ReductionError;

/// Why a reduction cannot run on the given ranks and arrays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ReductionRunError {
    /// The reduction is for more or fewer ranks than the world has.
    #[error("the reduction is for {}, but the program runs on {size}", counted(*.ranks, "rank"))]
    Ranks { ranks: usize, size: usize },
    /// The array has more or fewer elements than the reduction is made for.
    #[error("the reduction is for {elements} elements, but the array has {given}; make one for {given}")]
    Length { given: usize, elements: usize },
    /// A reduction of more elements than an array can have.
    #[error("an array cannot have {elements} elements of `{dtype}`; give at most {max}")]
    TooLong {
        elements: usize,
        dtype: DType,
        /// Maximum number of elements of that type.
        max: usize,
    },
    /// The steps break a rule of reductions.
    #[error(transparent)]
    Steps(#[from] Box<ReductionError>),
}
