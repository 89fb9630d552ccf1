//! Errors of sequences whose stages do not fit together.

use crate::PlanError;
use polyshard_layout::{Name, are};
use polyshard_machine::units::counted;
use polyshard_program::DType;
use std::fmt;

/// Why a sequence cannot be built. `stage` is a stage's number, from 1, and its kernel's name.
///
/// ```
/// use polyshard::planner::SequenceError;
/// use polyshard::prelude::*;
/// assert_eq!(*Sequence::new().build().unwrap_err(), SequenceError::Empty);
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum SequenceError {
    /// The sequence has no stages.
    #[error("the sequence has no stage; add one with `stage`")]
    Empty,
    /// A stage, counted from 1, is a program of several kernels or of none.
    #[error("stage {number} is a program of {statements} statements, not one kernel; add its kernels one by one")]
    NotAKernel { number: usize, statements: usize },
    /// No stage writes an output.
    #[error("no stage writes the output `{value}`; the stages write {written}")]
    Output { value: Name, written: String },
    /// A sharding is given for a value that is not an input: a stage writes the value, or none reads it.
    #[error("`{value}` is not an input; the inputs are {inputs}")]
    Input { value: Name, inputs: String },
    /// Two shardings are given for an input.
    #[error("the input `{value}` is given two shardings, {first} and {second}; give one")]
    InputTwice { value: Name, first: String, second: String },
    /// An output's sharding is of another shape.
    #[error("the output `{value}` has shape {found:?}, but its sharding is for {wanted:?}; make them match")]
    OutputShape { value: Name, found: Vec<usize>, wanted: Vec<usize> },
    /// An output's sharding has open partial sums where the value's are complete.
    #[error(
        "cannot redistribute the output `{value}` from {source_sharding} to {target_sharding}: its sums are complete; \
         leave out `partial`"
    )]
    Opened { value: Name, source_sharding: String, target_sharding: String },
    /// A stage and its kernel differ in their number of inputs.
    #[error(
        "{stage}: the kernel reads {} ({tensors}), but {} {} given ({values})",
        counted(*.expected, "tensor"), counted(*.given, "value"), are(*.given)
    )]
    Inputs { stage: String, expected: usize, tensors: String, given: usize, values: String },
    /// A value has another shape than the tensor that a kernel reads it as.
    #[error("{stage}: `{tensor}` has shape {expected:?}, but `{value}` has {found:?}, {origin}; make them match")]
    Shape { stage: String, tensor: Name, expected: Vec<usize>, value: Name, found: Vec<usize>, origin: String },
    /// A stage is lowered for another mesh than the first.
    #[error("{stage} runs on the mesh ({mesh}), but {other} on ({other_mesh}); lower all stages for one mesh")]
    Mesh { stage: String, mesh: String, other: String, other_mesh: String },
    /// A stage has another element type than the first.
    #[error("{stage} computes in {dtype}, but {other} in {other_dtype}; give all stages one element type")]
    Type { stage: String, dtype: DType, other: String, other_dtype: DType },
    /// A stage writes a value that exists already.
    #[error(
        "{stage} writes `{value}`, which is {origin}; the values before it are {existing}; give it a name of its own"
    )]
    Taken { stage: String, value: Name, origin: String, existing: String },
    /// A stage cannot continue a value.
    #[error("{stage} cannot {what} `{value}`: {why}")]
    Continues { stage: String, what: &'static str, value: Name, why: String },
    /// A value that is not an output is named, or an output is named twice.
    #[error("`call` names `{value}`, which is not an output or has been named before; the outputs are {outputs}")]
    Called { value: Name, outputs: String },
    /// Two outputs have one name.
    #[error("two outputs are called `{name}`; give each a name of its own")]
    CalledTwice { name: Name },
    /// A method for rounds is called on the whole sequence, or one for the whole sequence on rounds.
    #[error("`{step}` is for {of}; {help}")]
    Place { step: &'static str, of: &'static str, help: &'static str },
    /// Rounds carry nothing.
    #[error("rounds carry nothing, so each repeats the first; `carry` a value that a round writes: {written}")]
    NothingCarried { written: String },
    /// Rounds carry a value that a kernel writes in part, in another sharding than inner rounds start from.
    #[error(
        "`{kernel}` does not write all of `{value}`, the next version of `{carried}`, and inner rounds start from \
         `{value}` in another sharding, so the other elements of `{carried}` would be lost; give all of them one \
         sharding"
    )]
    LostRim { kernel: Name, value: Name, carried: Name },
    /// A round carries or is ended by a value that none of its stages writes.
    #[error("`{value}` is {what}, but no stage of the round writes it; its stages write {written}")]
    NotOfRound { value: Name, what: &'static str, written: String },
    /// A value is carried twice.
    #[error("`{value}` is carried twice; give each value one name for the next round")]
    CarriedTwice { value: Name },
    /// A value is carried to one of another shape.
    #[error("`{next}` has shape {found:?}, but becomes `{value}`, which has {wanted:?}; make them match")]
    CarriedShape { next: Name, found: Vec<usize>, value: Name, wanted: Vec<usize> },
    /// The value that ends rounds is not a scalar, or its bound is NaN.
    #[error(
        "`{value}` has shape {shape:?}, and its bound is {below}; rounds end when a scalar, of no dimensions, is \
         below a number"
    )]
    NoScalar { value: Name, shape: Vec<usize>, below: String },
    /// The value that ends rounds may differ between ranks.
    #[error(
        "rounds end by `{value}`, but the terms of `{of}` are added in any order, so ranks might end after different \
         rounds; leave `reassociate({of})` out of the schedule"
    )]
    AnyOrder { value: Name, of: Name },
    /// There are too many rounds.
    #[error("{times} rounds are too many; give at most {most}")]
    Rounds { times: u64, most: u64 },
    /// A redistribution that is necessary has no plan.
    #[error("cannot redistribute `{value}` from {source_sharding} to {target_sharding} for {reader}: {why}")]
    Plan { reader: String, value: Name, source_sharding: String, target_sharding: String, why: PlanError },
}

impl fmt::Debug for SequenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
