//! Errors in kernels.

use polyshard_layout::{Name, NotNative, counted};

/// Why a [`KernelSpec`](crate::KernelSpec) is not a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum KernelError {
    /// Programs do not compute in the element type.
    NotNative(NotNative),
    /// An extent is negative.
    NegativeExtent { tensor: Name, dim: usize, extent: i128 },
    /// A name that cannot be written in a kernel.
    BadName { name: Name },
    /// A range ends before it starts.
    ReversedRange { name: Name, start: i128, end: i128 },
    /// A tensor or the iteration space is too large to count.
    TooLarge {
        /// What overflows, with a tensor's name.
        what: String,
        /// The factors.
        product: String,
    },
    /// An index, or a term of one, is too large for sums of a few to fit 64 bits.
    OutOfReach {
        /// The index variable, or the index expression with its tensor.
        what: String,
    },
    /// Two tensors, scalars or ranges have one name.
    NameTwice { name: Name },
    /// An access to a tensor that is not declared.
    UnknownTensor { name: Name, tensors: String },
    /// A scalar that is not declared.
    UnknownScalar { name: Name },
    /// A value is given for a scalar that the kernel does not have.
    NoScalar {
        name: Name,
        /// The kernel's scalars, as text.
        scalars: String,
    },
    /// A scalar is given two values.
    ScalarTwice { name: Name },
    /// The statement writes something other than the output.
    NotTheOutput { name: Name, output: Name },
    /// The output is read on the right.
    OutputRead { name: Name },
    /// An access does not have one index per dimension.
    WrongIndexCount { tensor: Name, ndim: usize, access: String, given: usize },
    /// An index variable without a range has two extents.
    TwoExtents {
        name: Name,
        first: usize,
        first_at: String,
        second: usize,
        second_at: String,
        /// The range with which all accesses stay inside, if any.
        range: Option<Box<str>>,
    },
    /// An index variable has no extent.
    Unbound { name: Name },
    /// An index of the output is in no input.
    UnboundOutput { name: Name, output: Name },
    /// An access leaves its tensor.
    OutOfBounds {
        access: String,
        tensor: Name,
        index: String,
        low: i64,
        /// One more than its maximum.
        high: i64,
        dim: usize,
        extent: usize,
        /// The range with which all accesses stay inside, if any.
        range: Option<Box<str>>,
    },
    /// A periodic index wraps outside its dimension, or nowhere.
    ModulusOutOfRange { access: String, modulus: i128, tensor: Name, dim: usize, extent: usize },
    /// A modulus that is not declared.
    UnknownModulus { name: Name },
    /// One dimension is read by indices that wrap at different places.
    TwoModuli {
        tensor: Name,
        dim: usize,
        /// An access whose index wraps.
        first: String,
        /// An access whose index wraps elsewhere, or leaves the period of the other.
        second: String,
    },
    /// A value is given for elements outside of the output.
    OutsideOutput { access: String },
    /// The value outside of an input is not a number.
    OutsideValue { access: String },
    /// The output is written at a periodic index.
    PeriodicOutput { access: String, index: String },
    /// A float in a kernel of integers.
    FloatInInteger { number: String, dtype: &'static str },
    /// An index that is used as a number and has a modulus.
    PeriodicNumber { index: String },
    /// A literal that is not a number.
    NotFinite { number: String },
    /// A number that does not fit the element type.
    NumberTooLarge {
        /// The number; a scalar with its name.
        number: String,
        dtype: &'static str,
    },
    /// A function of floats in a kernel of integers.
    FloatFunction { function: &'static str, dtype: &'static str },
    /// A division by an integer 0.
    BadDivisor { divisor: String },
}

impl KernelError {
    fn parts(&self) -> (String, Option<String>) {
        match self {
            Self::NotNative(error) => (error.to_string(), None),
            Self::NegativeExtent { tensor, dim, extent } => {
                (format!("dimension {dim} of `{tensor}` has extent {extent}"), Some("an extent is at least 0".into()))
            }
            Self::BadName { name } => (
                format!("`{name}` is not a name"),
                Some("names are letters, digits and `_`, and do not start with a digit".into()),
            ),
            Self::ReversedRange { name, start, end } => (
                format!("the range of `{name}` ends before it starts: {start}..{end}"),
                Some(format!("an empty one is `{start}..{start}`")),
            ),
            Self::TooLarge { what, product } => (
                format!("the extents of {what} overflow: {product} does not fit 63 bits"),
                Some("make them smaller".into()),
            ),
            Self::OutOfReach { what } => (
                format!("{what} exceeds 2^60, so sums of indices might overflow"),
                Some("use smaller extents and coefficients".into()),
            ),
            Self::NameTwice { name } => (
                format!("the name `{name}` is given twice"),
                Some("names of tensors, scalars and ranges are distinct".into()),
            ),
            Self::UnknownTensor { name, tensors } => {
                (format!("no tensor `{name}`"), Some(format!("the tensors are {tensors}")))
            }
            Self::UnknownScalar { name } => {
                (format!("no scalar `{name}`"), Some("capture it from the surroundings".into()))
            }
            Self::NoScalar { name, scalars } => (format!("no scalar `{name}`"), Some(scalars.clone())),
            Self::ScalarTwice { name } => {
                (format!("the scalar `{name}` is given twice"), Some("give each scalar one value".into()))
            }
            Self::NotTheOutput { name, output } => (
                format!("the statement writes `{name}`, but the output is `{output}`"),
                Some(format!("write `{output}[..]` on the left")),
            ),
            Self::OutputRead { name } => (
                format!("the output `{name}` is read on the right"),
                Some("use `+=`, `*=`, `max=` or `min=` to update it".into()),
            ),
            Self::WrongIndexCount { tensor, ndim, access, given } => {
                let dimensions = counted(*ndim, "dimension");
                (format!("`{tensor}` has {dimensions}, but `{access}` gives {given}"), None)
            }
            Self::TwoExtents { name, first, first_at, second, second_at, range } => {
                let range = range.as_ref().map(|range| format!(", or state the range that fits: {range}"));
                let message = format!("index `{name}` has extent {first} in {first_at}, but {second} in {second_at}");
                (message, Some(format!("make them match{}", range.unwrap_or_default())))
            }
            Self::Unbound { name } => (
                format!("index `{name}` has no extent, since it never appears alone"),
                Some(format!("give its range: `for {name} in 0..n`")),
            ),
            Self::UnboundOutput { name, output } => (
                format!("index `{name}` of output `{output}` appears in no input"),
                Some(format!("use it in an input access or give its range: `for {name} in 0..n`")),
            ),
            Self::OutOfBounds { access, tensor, index, low, high, dim, extent, range } => (
                format!(
                    "`{access}` leaves `{tensor}`: index `{index}` spans {low}..{high}, but dimension {dim} has extent {extent}"
                ),
                range.as_ref().map(|range| format!("state the range that fits: {range}")),
            ),
            Self::ModulusOutOfRange { access, modulus, tensor, dim, extent } => (
                format!("`{access}` wraps at {modulus}, but dimension {dim} of `{tensor}` has extent {extent}"),
                Some("a modulus is between 1 and the extent".into()),
            ),
            Self::UnknownModulus { name } => {
                (format!("no modulus `{name}`"), Some("capture it from the surroundings".into()))
            }
            Self::TwoModuli { tensor, dim, first, second } => (
                format!(
                    "`{first}` and `{second}` read dimension {dim} of `{tensor}`, but do not wrap at the same place"
                ),
                Some("pass the array twice, under two names".into()),
            ),
            Self::OutsideOutput { access } => (
                format!("`{access}` is written, and nothing is written outside of the output"),
                Some("only accesses to inputs may have an `else`".into()),
            ),
            Self::OutsideValue { access } => (
                format!("the value of `{access}` outside of its tensor is not a number"),
                Some("write a number or a scalar after `else`, as in `A[i - 1] else 0.0`".into()),
            ),
            Self::PeriodicOutput { access, index } => (
                format!("`{access}` is written, but its index `{index}` wraps"),
                Some("only indices of inputs may wrap".into()),
            ),
            Self::FloatInInteger { number, dtype } => {
                (format!("`{number}` is a float, but the elements are {dtype}"), Some("write an integer".into()))
            }
            Self::PeriodicNumber { index } => {
                (format!("`{index}` is used as a number"), Some("leave out the modulus: only accesses wrap".into()))
            }
            Self::NotFinite { number } => (
                format!("`{number}` is not a number that can be written in a kernel"),
                Some("capture it as a scalar".into()),
            ),
            Self::NumberTooLarge { number, dtype } => (
                format!("`{number}` does not fit {dtype}"),
                Some("write a smaller number, or let the tensors hold a larger type".into()),
            ),
            Self::FloatFunction { function, dtype } => (
                format!("`{function}` is a function of floats, but the elements are {dtype}"),
                Some("let the tensors hold `f32` or `f64`".into()),
            ),
            Self::BadDivisor { divisor } => (
                format!("cannot divide by `{divisor}`: it is 0, and the elements are integers"),
                Some("divide by another number".into()),
            ),
        }
    }
}

polyshard_layout::message_and_help!(KernelError);

impl From<NotNative> for KernelError {
    fn from(error: NotNative) -> Self {
        Self::NotNative(error)
    }
}
