//! Errors in the arrays and scalars that a program or a kernel runs on.

use crate::layout::{DType, Name, Sharding, are, joined};
use polyshard_machine::units::counted;
use polyshard_program::KernelError;

/// Why a program or a kernel cannot run on the given arrays and scalars.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::{Error, RunError};
/// let twice = kernel! { fn twice(A: [f32; 8]) -> B: [f32; 8] { B[i] = 2.0 * A[i] } };
/// let program = twice.lower()?;
/// polyshard::spmd(1, |world| {
///     let error = program.run::<f32>(world, &[]).expect_err("it has an input");
///     assert!(matches!(error.cause(), Error::Run(RunError::Inputs { given: 0, .. })));
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum RunError {
    /// The elements are of another type than the program's.
    #[error("{} computes in {wanted}, but the arrays hold {given}; make them match", program(*.kernel))]
    ElementType {
        /// The program's kernel, if it has exactly one.
        kernel: Option<Name>,
        wanted: DType,
        given: DType,
    },
    /// The program takes more or fewer inputs.
    #[error("{} takes {} ({}), but {given} {} given", program(*.kernel), counted(.inputs.len(), "input"), joined(.inputs, ", "), are(*.given))]
    Inputs {
        /// The program's kernel, if it has exactly one.
        kernel: Option<Name>,
        inputs: Vec<Name>,
        given: usize,
    },
    /// An array has another shape than the program's.
    #[error(
        "`{name}` has shape {:?}, but the program expects {:?}; run it on arrays of that shape, or lower it for this one",
        .given.shape(),
        .wanted.shape()
    )]
    Shape {
        name: Name,
        /// Its sharding.
        given: Box<Sharding>,
        /// The sharding that the program expects.
        wanted: Box<Sharding>,
    },
    /// An array is on another mesh than the program's.
    #[error(
        "`{name}` is on the mesh ({}), but the program runs on ({}); make the array with the program's sharding",
        .given.mesh(),
        .wanted.mesh()
    )]
    Mesh { name: Name, given: Box<Sharding>, wanted: Box<Sharding> },
    /// The elements of an array are on other ranks than the program expects.
    #[error(
        "`{name}` is sharded {given}, but the program expects {wanted}; make the array with the program's sharding, or \
         redistribute it"
    )]
    Owners { name: Name, given: Box<Sharding>, wanted: Box<Sharding> },
    /// An input is to be read in place, but not all ranks can map it.
    #[error(
        "an input sharded {sharding} is not in memory that all ranks share: they are on several nodes, or the system \
         does not let them share memory; use `Transport::Auto`"
    )]
    NotShared { sharding: Box<Sharding> },
    /// One output is given or requested, but the program writes several.
    #[error(
        "`{call}` is for one output, but the program writes {} ({}); use `run_all`, or `run_named` for some of them",
        .outputs.len(),
        joined(.outputs, ", ")
    )]
    Outputs { call: &'static str, outputs: Vec<Name> },
    /// An output that the program does not write, or one that is named twice.
    #[error("`{name}` is not an output, or is named twice; the program writes {}", joined(.outputs, ", "))]
    NoOutput { name: Name, outputs: Vec<Name> },
    /// The number of arrays to verify differs from the program's outputs.
    #[error("the program writes {}, but {} {} given to compare", joined(.outputs, ", "), counted(.given, "array"), are(*.given))]
    Verified { outputs: Vec<Name>, given: usize },
    /// An element of an output differs from the sequential result.
    #[error(transparent)]
    Wrong(#[from] Box<WrongElement>),
    /// A scalar is given to a program without a kernel.
    #[error("the program has no scalar `{name}`, as it has no kernel")]
    NoKernel { name: Name },
    /// The ranks give different values for a scalar.
    #[error("`{name}` differs between ranks: {values}; give all ranks the same value")]
    ScalarsDiffer { name: Name, values: Box<str> },
    /// A kernel refuses the scalars.
    #[error(transparent)]
    Scalars(#[from] Box<KernelError>),
    /// A kernel that is evaluated on whole arrays takes more or fewer of them.
    #[error("`{kernel}` takes {}, but {given} {} given", counted(.wanted, "input"), are(*.given))]
    WholeInputs { kernel: Name, wanted: usize, given: usize },
    /// A kernel is evaluated on a whole array that has another shape than its tensor.
    #[error("`{tensor}` has shape {wanted:?}, but the array given has {given:?}")]
    WholeShape { tensor: Name, wanted: Vec<usize>, given: Box<[usize]> },
}

/// How messages name a program: by its kernel, if it has exactly one.
fn program(kernel: Option<Name>) -> String {
    kernel.map_or("the program".into(), |kernel| format!("`{kernel}`"))
}

/// An element of an output that differs from the sequential result by more than the tolerance; see
/// [`Execute::verify`](crate::Execute::verify).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "wrong result: `{array}` at {index:?} is {found}, but {expected} computed sequentially; the error is {error} of \
     the largest magnitude, but at most {tolerance} is allowed"
)]
#[expect(missing_docs, reason = "the message explains the fields")]
pub struct WrongElement {
    pub array: Name,
    pub index: Vec<usize>,
    pub found: String,
    pub expected: String,
    /// The difference, relative to the largest magnitude in the array.
    pub error: String,
    pub tolerance: String,
}
