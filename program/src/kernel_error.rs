//! Errors in kernels.

use polyshard_layout::{Name, NotNative, counted};

/// Why a [`KernelSpec`](crate::KernelSpec) is not a kernel. In its text, help follows the first semicolon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum KernelError {
    /// Programs do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// An extent is negative.
    #[error("dimension {dim} of `{tensor}` has extent {extent}; an extent is at least 0")]
    NegativeExtent { tensor: Name, dim: usize, extent: i128 },
    /// A name that cannot be written in a kernel.
    #[error("`{name}` is not a name; names are letters, digits and `_`, and do not start with a digit")]
    BadName { name: Name },
    /// A range ends before it starts.
    #[error("the range of `{name}` ends before it starts: {start}..{end}; an empty one is `{start}..{start}`")]
    ReversedRange { name: Name, start: i128, end: i128 },
    /// A tensor or the iteration space is too large to count: the product of its extents overflows.
    #[error("the extents of {what} overflow: {product} does not fit 63 bits; make them smaller")]
    TooLarge { what: String, product: String },
    /// An index variable, or a term of an index expression, is too large for sums of a few to fit 64 bits.
    #[error("{what} exceeds 2^60, so sums of indices might overflow; use smaller extents and coefficients")]
    OutOfReach { what: String },
    /// Two tensors, scalars or ranges have one name.
    #[error("the name `{name}` is given twice; names of tensors, scalars and ranges are distinct")]
    NameTwice { name: Name },
    /// An access to a tensor that is not declared.
    #[error("no tensor `{name}`; the tensors are {tensors}")]
    UnknownTensor { name: Name, tensors: String },
    /// A scalar that is not declared.
    #[error("no scalar `{name}`; capture it from the surroundings")]
    UnknownScalar { name: Name },
    /// A value is given for a scalar that the kernel does not have; `scalars` says which it has.
    #[error("no scalar `{name}`; {scalars}")]
    NoScalar { name: Name, scalars: String },
    /// A scalar is given two values.
    #[error("the scalar `{name}` is given twice; give each scalar one value")]
    ScalarTwice { name: Name },
    /// The statement writes something other than the output.
    #[error("the statement writes `{name}`, but the output is `{output}`; write `{output}[..]` on the left")]
    NotTheOutput { name: Name, output: Name },
    /// The output is read on the right.
    #[error("the output `{name}` is read on the right; use `+=`, `*=`, `max=` or `min=` to update it")]
    OutputRead { name: Name },
    /// An access does not have one index per dimension.
    #[error("`{tensor}` has {}, but `{access}` gives {given}", counted(*ndim, "dimension"))]
    WrongIndexCount { tensor: Name, ndim: usize, access: String, given: usize },
    /// An index variable without a range has two extents; with `range`, if any, all accesses stay inside.
    #[error(
        "index `{name}` has extent {first} in {first_at}, but {second} in {second_at}; make them match{}",
        fitting(", or ", range.as_deref())
    )]
    TwoExtents { name: Name, first: usize, first_at: String, second: usize, second_at: String, range: Option<Box<str>> },
    /// An index variable has no extent.
    #[error("index `{name}` has no extent, since it never appears alone; give its range: `for {name} in 0..n`")]
    Unbound { name: Name },
    /// An index of the output is in no input.
    #[error(
        "index `{name}` of output `{output}` appears in no input; \
         use it in an input access or give its range: `for {name} in 0..n`"
    )]
    UnboundOutput { name: Name, output: Name },
    /// An access leaves its tensor: its index is in `low..high`; with `range`, if any, all accesses stay inside.
    #[error(
        "`{access}` leaves `{tensor}`: index `{index}` spans {low}..{high}, but dimension {dim} has extent {extent}{}",
        fitting("; ", range.as_deref())
    )]
    OutOfBounds {
        access: String,
        tensor: Name,
        index: String,
        low: i64,
        high: i64,
        dim: usize,
        extent: usize,
        range: Option<Box<str>>,
    },
    /// A periodic index wraps outside its dimension, or nowhere.
    #[error(
        "`{access}` wraps at {modulus}, but dimension {dim} of `{tensor}` has extent {extent}; \
         a modulus is between 1 and the extent"
    )]
    ModulusOutOfRange { access: String, modulus: i128, tensor: Name, dim: usize, extent: usize },
    /// A modulus that is not declared.
    #[error("no modulus `{name}`; capture it from the surroundings")]
    UnknownModulus { name: Name },
    /// One dimension is read by indices that wrap at different places, or of which one leaves the period of the other.
    #[error(
        "`{first}` and `{second}` read dimension {dim} of `{tensor}`, but do not wrap at the same place; \
         pass the array twice, under two names"
    )]
    TwoModuli { tensor: Name, dim: usize, first: String, second: String },
    /// A value is given for elements outside of the output.
    #[error(
        "`{access}` is written, and nothing is written outside of the output; only accesses to inputs may have an `else`"
    )]
    OutsideOutput { access: String },
    /// The value outside of an input is not a number.
    #[error(
        "the value of `{access}` outside of its tensor is not a number; \
         write a number or a scalar after `else`, as in `A[i - 1] else 0.0`"
    )]
    OutsideValue { access: String },
    /// The output is written at a periodic index.
    #[error("`{access}` is written, but its index `{index}` wraps; only indices of inputs may wrap")]
    PeriodicOutput { access: String, index: String },
    /// A float in a kernel of integers.
    #[error("`{number}` is a float, but the elements are {dtype}; write an integer")]
    FloatInInteger { number: String, dtype: &'static str },
    /// An index that is used as a number and has a modulus.
    #[error("`{index}` is used as a number; leave out the modulus: only accesses wrap")]
    PeriodicNumber { index: String },
    /// A literal that is not a number.
    #[error("`{number}` is not a number that can be written in a kernel; capture it as a scalar")]
    NotFinite { number: String },
    /// A number, or a scalar with its name, that does not fit the element type.
    #[error("`{number}` does not fit {dtype}; write a smaller number, or let the tensors hold a larger type")]
    NumberTooLarge { number: String, dtype: &'static str },
    /// A function of floats in a kernel of integers.
    #[error("`{function}` is a function of floats, but the elements are {dtype}; let the tensors hold `f32` or `f64`")]
    FloatFunction { function: &'static str, dtype: &'static str },
    /// The output of a running reduction is not made of records.
    #[error("`{reduction}=` does not fit `{target}`: {why}")]
    NoRecords { reduction: Name, target: String, why: String },
    /// A division by an integer 0.
    #[error("cannot divide by `{divisor}`: it is 0, and the elements are integers; divide by another number")]
    BadDivisor { divisor: String },
}

polyshard_layout::message_and_help!(KernelError);

/// The range with which all accesses stay inside, if any, after a separator.
fn fitting(separator: &str, range: Option<&str>) -> String {
    range.map_or_else(String::new, |range| format!("{separator}state the range that fits: {range}"))
}
