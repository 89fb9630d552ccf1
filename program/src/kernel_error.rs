//! What can be wrong with a kernel.

use polyshard_layout::{Name, NotNative};

/// Why a [`KernelSpec`](crate::KernelSpec) is not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Programs do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// An extent is negative.
    #[error("dimension {dim} of `{tensor}` has extent {extent}; an extent is at least 0")]
    NegativeExtent {
        /// The tensor.
        tensor: Name,
        /// The dimension.
        dim: usize,
        /// The extent.
        extent: i128,
    },
    /// A name that cannot be written in a kernel.
    #[error("`{name}` is not a name; names are letters, digits and `_`, and do not start with a digit")]
    BadName {
        /// The name.
        name: Name,
    },
    /// A range ends before it starts.
    #[error("the range of `{name}` ends before it starts: {start}..{end}; an empty one is `{start}..{start}`")]
    ReversedRange {
        /// The index variable.
        name: Name,
        /// Where it starts.
        start: i128,
        /// Where it ends.
        end: i128,
    },
    /// A tensor or the iteration space is too large to count.
    #[error("the extents of {what} overflow: {product} does not fit 63 bits; make them smaller")]
    TooLarge {
        /// What overflows, with a tensor's name.
        what: String,
        /// The factors.
        product: String,
    },
    /// An index, or a term of one, is too large for sums of a few to fit 64 bits.
    #[error("{what} goes beyond 2^60, so that sums of indices might overflow; use smaller extents and coefficients")]
    OutOfReach {
        /// The index variable, or the index expression with its tensor.
        what: String,
    },
    /// Two tensors, scalars or ranges have one name.
    #[error("the name `{name}` is given twice; names of tensors, scalars and ranges are distinct")]
    NameTwice {
        /// The name.
        name: Name,
    },
    /// An access to a tensor that is not declared.
    #[error("no tensor `{name}`; the tensors are {tensors}")]
    UnknownTensor {
        /// The name.
        name: Name,
        /// The tensors declared.
        tensors: String,
    },
    /// A scalar that is not declared.
    #[error("no scalar `{name}`; capture it from the surroundings")]
    UnknownScalar {
        /// The name.
        name: Name,
    },
    /// A value is given for a scalar that the kernel does not have.
    #[error("no scalar `{name}`; {scalars}")]
    NoScalar {
        /// The name.
        name: Name,
        /// The scalars that there are, in words.
        scalars: String,
    },
    /// A scalar is given two values.
    #[error("the scalar `{name}` is given twice; give each scalar one value")]
    ScalarTwice {
        /// The name.
        name: Name,
    },
    /// The statement writes something else than the output.
    #[error("the statement writes `{name}`, but the output is `{output}`; write `{output}[..]` on the left")]
    NotTheOutput {
        /// The tensor written.
        name: Name,
        /// The output.
        output: Name,
    },
    /// The output is read on the right.
    #[error("the output `{name}` is read on the right; use `+=`, `*=`, `max=` or `min=` to go on from what it holds")]
    OutputRead {
        /// The output.
        name: Name,
    },
    /// An access has not one index per dimension.
    #[error("`{tensor}` has {ndim} dimensions, but `{access}` gives {given}")]
    WrongIndexCount {
        /// The tensor.
        tensor: Name,
        /// Its dimensions.
        ndim: usize,
        /// The access.
        access: String,
        /// Indices given.
        given: usize,
    },
    /// An index variable without a range has two extents.
    #[error(
        "index `{name}` has extent {first} in {first_at}, but {second} in {second_at}; let them agree{}",
        .range.as_ref().map(|range| format!(", or state the range that fits: {range}")).unwrap_or_default()
    )]
    TwoExtents {
        /// The variable.
        name: Name,
        /// Its first extent.
        first: usize,
        /// Where that comes from.
        first_at: String,
        /// Its second extent.
        second: usize,
        /// Where that comes from.
        second_at: String,
        /// The range with which all accesses stay inside, if there is one.
        range: Option<Box<str>>,
    },
    /// An index variable has no extent.
    #[error("index `{name}` has no extent, since it stands nowhere alone; give its range: `for {name} in 0..n`")]
    Unbound {
        /// The variable.
        name: Name,
    },
    /// An index of the output is in no input.
    #[error(
        "index `{name}` of output `{output}` appears in no input; use it in an input access or give its range: `for {name} in 0..n`"
    )]
    UnboundOutput {
        /// The variable.
        name: Name,
        /// The output.
        output: Name,
    },
    /// An access leaves its tensor.
    #[error(
        "`{access}` leaves `{tensor}`: index `{index}` spans {low}..{high}, but dimension {dim} has extent {extent}{}",
        .range.as_ref().map(|range| format!("; state the range that fits: {range}")).unwrap_or_default()
    )]
    OutOfBounds {
        /// The access.
        access: String,
        /// The tensor.
        tensor: Name,
        /// The index expression.
        index: String,
        /// Its least value.
        low: i64,
        /// One more than its greatest value.
        high: i64,
        /// The dimension.
        dim: usize,
        /// The dimension's extent.
        extent: usize,
        /// The range with which all accesses stay inside, if there is one.
        range: Option<Box<str>>,
    },
    /// A periodic index wraps outside its dimension, or nowhere.
    #[error(
        "`{access}` wraps at {modulus}, but dimension {dim} of `{tensor}` has extent {extent}; a modulus is between 1 and the extent"
    )]
    ModulusOutOfRange {
        /// The access.
        access: String,
        /// The modulus.
        modulus: i128,
        /// The tensor.
        tensor: Name,
        /// The dimension.
        dim: usize,
        /// The dimension's extent.
        extent: usize,
    },
    /// A modulus that is not declared.
    #[error("no modulus `{name}`; capture it from the surroundings")]
    UnknownModulus {
        /// The name.
        name: Name,
    },
    /// One dimension is read by indices that wrap at different places.
    #[error(
        "`{first}` and `{second}` read dimension {dim} of `{tensor}`, but do not wrap at the same place; pass the array twice, under two names"
    )]
    TwoModuli {
        /// The tensor.
        tensor: Name,
        /// The dimension.
        dim: usize,
        /// An access whose index wraps.
        first: String,
        /// An access whose index wraps elsewhere, or leaves the period of the other.
        second: String,
    },
    /// The output is written at a periodic index.
    #[error("`{access}` is written, but its index `{index}` wraps; only indices of inputs may wrap")]
    PeriodicOutput {
        /// The access.
        access: String,
        /// The index.
        index: String,
    },
    /// A float in a kernel of integers.
    #[error("`{number}` is a float, but the elements are {dtype}; write an integer")]
    FloatInInteger {
        /// The number or scalar.
        number: String,
        /// The element type.
        dtype: &'static str,
    },
    /// A literal that is no number.
    #[error("`{number}` is not a number that can be written in a kernel; capture it as a scalar")]
    NotFinite {
        /// The literal.
        number: String,
    },
    /// A number that no element can be.
    #[error("`{number}` does not fit {dtype}; write a smaller number, or let the tensors hold a larger type")]
    NumberTooLarge {
        /// The number; a scalar with its name.
        number: String,
        /// The element type.
        dtype: &'static str,
    },
    /// A function of floats in a kernel of integers.
    #[error("`{function}` is a function of floats, but the elements are {dtype}; let the tensors hold `f32` or `f64`")]
    FloatFunction {
        /// The function.
        function: &'static str,
        /// The element type.
        dtype: &'static str,
    },
    /// A division by an integer 0.
    #[error("cannot divide by `{divisor}`: {why}")]
    BadDivisor {
        /// The divisor.
        divisor: String,
        /// What is wrong and what to write.
        why: &'static str,
    },
}
