//! Kernels: one tensor statement in index notation, as data.
//!
//! A [`KernelSpec`] is what was written; [`KernelSpec::check`] turns it into a [`Kernel`], whose indices
//! are all bound and whose accesses all stay inside their tensors. Everything downstream relies on that.
//! Tests: `program/src/kernel_check/tests.rs`.

use crate::affine::Affine;
use crate::number::Number;
use crate::running::Running;
use crate::value::{Access, Value};
use polyshard_layout::{DType, Name, joined};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// How the statement assigns the value that it computes.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::Assign;
/// let sum = kernel! { fn sum(A: [f32; 8]) -> s: f32 { s[] += A[i] } };
/// assert_eq!(sum.kernel()?.assign(), Assign::Add);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Assign {
    /// `=`: the output becomes the sum over the contracted indices, as in einsum.
    #[serde(rename = "=")]
    Set,
    /// `+=`: adds to the output's values.
    #[default]
    #[serde(rename = "+=")]
    Add,
    /// `*=`: multiplies the output's values.
    #[serde(rename = "*=")]
    Mul,
    /// `max=`: keeps the greatest.
    #[serde(rename = "max=")]
    Max,
    /// `min=`: keeps the least.
    #[serde(rename = "min=")]
    Min,
    /// `online=` and the like: combines records of several values by a running reduction.
    #[serde(rename = "running")]
    Running(Running),
}

impl Assign {
    /// The operation that combines partial results: the statement's own, or `+=` for `=`.
    #[must_use]
    pub fn accumulating(self) -> Self {
        match self {
            Self::Set => Self::Add,
            other => other,
        }
    }

    /// Returns the running reduction, if it is one.
    #[must_use]
    pub fn running(self) -> Option<Running> {
        match self {
            Self::Running(running) => Some(running),
            _ => None,
        }
    }

    /// Returns whether the order of combining values may affect rounding.
    #[must_use]
    pub fn depends_on_order(self, dtype: DType) -> bool {
        dtype.is_float() && !matches!(self, Self::Max | Self::Min)
    }
}

/// A tensor of a kernel.
///
/// ```
/// use polyshard::prelude::*;
/// let twice = kernel! { fn twice(A: [f32; 8, 3]) -> B: [f32; 8, 3] { B[i, j] = 2.0 * A[i, j] } };
/// let a = &twice.kernel()?.inputs()[0];
/// assert_eq!((a.name.as_str(), a.ndim(), &a.shape[..]), ("A", 2, &[8, 3][..]));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name.
    pub name: Name,
    /// Its shape, elements per dimension.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }
}

/// An index variable with its range `start..start + extent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IndexVar {
    /// Its name.
    pub name: Name,
    /// Its first value as the kernel was written; everything downstream counts from 0.
    pub start: i64,
    /// The number of values.
    pub extent: usize,
}

impl IndexVar {
    /// Returns the range as stated: `for i in 1..17`.
    #[must_use]
    pub fn range(&self) -> String {
        format!("for {} in {}..{}", self.name, self.start, i128::from(self.start) + self.extent as i128)
    }
}

/// A kernel as it was written; [`check`](Self::check) makes it a [`Kernel`].
///
/// ```
/// let spec = polyshard::text::parse_kernel("fn twice(A: [f32; 8]) -> B: [f32; 8] { B[i] = 2 * A[i] }")?;
/// assert_eq!(spec.output.1, [8]);
/// assert_eq!(spec.check().expect("a kernel").statement(), "B[i] = 2 * A[i]");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// The kernel's name.
    pub name: Name,
    /// The element type of all its tensors.
    pub dtype: DType,
    /// Inputs: name and extents, which may be out of range.
    pub inputs: Vec<(Name, Vec<i128>)>,
    /// The output.
    pub output: (Name, Vec<i128>),
    /// Ranges stated by hand, `for q in 1..n`; an index with one may stand alone in any dimension it stays inside.
    pub ranges: Vec<(Name, Range<i128>)>,
    /// Captured scalars.
    pub scalars: Vec<(Name, Number)>,
    /// Captured moduli of periodic indices, which may be out of range.
    pub moduli: Vec<(Name, i128)>,
    /// Where the statement writes.
    pub target: Access,
    /// How it writes.
    pub assign: Assign,
    /// The value that it writes.
    pub value: Value,
}

impl KernelSpec {
    /// Returns the kernel that computes the sum of products of `factors`, of which there is at least one; accesses come with the extents of
    /// their tensors. A tensor that is read several times is one input.
    #[must_use]
    pub fn product(
        name: Name,
        dtype: DType,
        factors: Vec<(Access, Vec<i128>)>,
        (target, shape): (Access, Vec<i128>),
    ) -> Option<Self> {
        let mut inputs: Vec<(Name, Vec<i128>)> = Vec::new();
        for (access, shape) in &factors {
            if inputs.iter().all(|(name, _)| *name != access.tensor) {
                inputs.push((access.tensor, shape.clone()));
            }
        }
        let accesses = factors.into_iter().map(|(access, _)| Value::Access(access));
        let value = accesses.reduce(|left, right| Value::Mul(Box::new(left), Box::new(right)))?;
        let (output, assign) = ((target.tensor, shape), Assign::Set);
        let (ranges, scalars, moduli) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { name, dtype, inputs, output, ranges, scalars, moduli, target, assign, value })
    }
}

/// A checked kernel: indices bound, accesses inside their tensors, extents that do not overflow.
///
/// Whatever range an index was stated with, here it counts from 0: `A[i - 1]` for `i in 1..17` is `A[i]` with 16
/// values of `i`. [`statement`](Self::statement) is the text as it was written. A kernel serialises as it was
/// written, and is checked again when it is read.
///
/// ```
/// use polyshard::prelude::*;
/// let matmul = kernel! {
///     fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let kernel = matmul.kernel()?;
/// assert_eq!(kernel.inputs().len(), 2);
/// assert_eq!(kernel.output().shape, [4, 8]);
/// assert_eq!(kernel.vars().iter().map(|var| var.extent).product::<usize>(), 4 * 8 * 6);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "KernelForm", try_from = "KernelForm")]
pub struct Kernel {
    /// As it was written, with its indices' own ranges.
    pub(crate) spec: KernelSpec,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) output: Tensor,
    pub(crate) vars: Vec<IndexVar>,
    /// Where the statement writes, and what, with indices that count from 0.
    pub(crate) target: Access,
    pub(crate) value: Value,
}

impl Kernel {
    /// Returns the kernel as it was before it was checked, to be changed and checked again.
    ///
    /// ```
    /// use polyshard::text::parse_kernel;
    /// let kernel = parse_kernel("fn twice(A: [f32; 4]) -> B: [f32; 4] { B[i] = 2.0 * A[i] }")?.check()?;
    /// assert_eq!(kernel.spec().clone().check()?, kernel);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> Name {
        self.spec.name
    }

    /// Returns the element type of all tensors.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Returns the inputs, in the order in which they are given to `run`.
    #[must_use]
    pub fn inputs(&self) -> &[Tensor] {
        &self.inputs
    }

    /// Returns the output.
    #[must_use]
    pub fn output(&self) -> &Tensor {
        &self.output
    }

    /// Returns all tensors: the inputs, then the output.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.inputs.iter().chain([&self.output])
    }

    /// Returns the index variables: those of the output, then the contracted ones, as they appear.
    #[must_use]
    pub fn vars(&self) -> &[IndexVar] {
        &self.vars
    }

    /// Returns the captured scalars.
    #[must_use]
    pub fn scalars(&self) -> &[(Name, Number)] {
        &self.spec.scalars
    }

    /// Returns where the statement writes, with indices that count from 0.
    #[must_use]
    pub fn target(&self) -> &Access {
        &self.target
    }

    /// Returns how it writes.
    #[must_use]
    pub fn assign(&self) -> Assign {
        self.spec.assign
    }

    /// Returns the value that it writes, with indices that count from 0.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns where the statement writes, as it was written: indices run over their own ranges.
    #[must_use]
    pub fn written_target(&self) -> &Access {
        &self.spec.target
    }

    /// Returns the value that it writes, as it was written: indices run over their own ranges.
    #[must_use]
    pub fn written_value(&self) -> &Value {
        &self.spec.value
    }

    /// Returns the accesses of one tensor: those of an input, or the one of the output; indices count from 0.
    #[must_use]
    pub fn accesses_of(&self, tensor: Name) -> Vec<&Access> {
        self.accesses_to(tensor, &self.target, &self.value)
    }

    /// Returns the accesses of one tensor as they were written.
    #[must_use]
    pub fn written_accesses_of(&self, tensor: Name) -> Vec<&Access> {
        self.accesses_to(tensor, &self.spec.target, &self.spec.value)
    }

    fn accesses_to<'a>(&self, tensor: Name, target: &'a Access, value: &'a Value) -> Vec<&'a Access> {
        let accesses = if tensor == self.output.name { vec![target] } else { value.accesses() };
        accesses.into_iter().filter(|access| access.tensor == tensor).collect()
    }

    /// Returns, by dimension, the extent of an input if the index of the access may be outside of it.
    #[must_use]
    pub fn open_extents(&self, access: &Access) -> Vec<Option<i64>> {
        let shape = self.tensors().find(|tensor| tensor.name == access.tensor).map_or(&[][..], |tensor| &tensor.shape);
        let outside = |(index, &extent): (&Affine, &usize)| {
            let may = access.outside.is_some() && index.modulus.is_none();
            let (low, high) = span(index, &self.vars, false);
            (may && (low < 0 || high > extent as i128)).then_some(extent as i64)
        };
        access.index.iter().zip(shape).map(outside).collect()
    }

    /// Returns the index over the elements of a record, if the kernel is a running reduction. It is the last one of the output, and
    /// stays whole and innermost in every schedule.
    #[must_use]
    pub fn record_index(&self) -> Option<Name> {
        self.assign().running()?;
        self.target.index.last()?.as_variable()
    }

    /// Returns whether the statement never runs, since an index has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vars.iter().any(|var| var.extent == 0)
    }

    /// Returns the statement as it was written: `C[m, n] += A[m, k] * B[k, n]`, and the ranges that were stated.
    #[must_use]
    pub fn statement(&self) -> String {
        let KernelSpec { target, assign, value, ranges: stated, .. } = &self.spec;
        let ranges = self.vars.iter().filter(|var| stated.iter().any(|range| range.0 == var.name));
        let ranges: String = ranges.map(|var| format!(" {}", var.range())).collect();
        let value = self.terms(value).unwrap_or_else(|| value.to_string());
        format!("{target} {assign} {value}{ranges}")
    }

    /// The terms of a running reduction, which the elements of a record choose: `(S[i, j], 1.0)` for
    /// `if field < 1 { 1 } else { if field < 2 { S[i, j] } else { 1.0 } }`.
    fn terms(&self, value: &Value) -> Option<String> {
        let record = self.record_index()?;
        let (mut terms, mut rest) = (Vec::new(), value);
        while let Value::If(choice) = rest
            && matches!(&choice.left, Value::Index(index) if index.as_variable() == Some(record))
        {
            terms.push(&choice.then);
            rest = &choice.otherwise;
        }
        terms.push(rest);
        Some(format!("({})", joined(terms.get(1..)?, ", ")))
    }

    /// Returns the kernel as `kernel!` takes it: `fn f(A: [f32; 4, 6]) -> b: f32 { b[] += A[i, j] }`.
    ///
    /// ```
    /// use polyshard::text::parse_kernel;
    /// let text = "fn matmul(A: [f32; 4, 6], B: [f32; 6, 5]) -> C: [f32; 4, 5] { C[m, n] += A[m, k] * B[k, n] }";
    /// assert_eq!(parse_kernel(text)?.check()?.definition(), text);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn definition(&self) -> String {
        format!("{} {{ {} }}", self.head(), self.statement())
    }

    /// `fn f(A: [f32; 4, 6]) -> b: f32`.
    fn head(&self) -> String {
        let declared = |tensor: &Tensor| match &tensor.shape[..] {
            [] => format!("{}: {}", tensor.name, self.dtype()),
            shape => format!("{}: [{}; {}]", tensor.name, self.dtype(), joined(shape, ", ")),
        };
        let inputs = joined(self.inputs.iter().map(declared), ", ");
        format!("fn {}({inputs}) -> {}", self.name(), declared(&self.output))
    }

    /// The statement with indices that count from 0, as the loops of a program do.
    pub(crate) fn counted_statement(&self) -> String {
        format!("{} {} {}", self.target, self.assign(), self.value)
    }
}

/// A kernel as stored in a file: as the user wrote it; checking it yields a [`Kernel`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelForm {
    name: Name,
    dtype: DType,
    inputs: Vec<Tensor>,
    output: Tensor,
    /// Stated ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<RangeForm>,
    scalars: Vec<(Name, Number)>,
    target: Access,
    assign: Assign,
    value: Value,
}

/// `for name in start..end`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeForm {
    name: Name,
    start: i64,
    end: i64,
}

impl From<Kernel> for KernelForm {
    fn from(Kernel { spec, inputs, output, .. }: Kernel) -> Self {
        let KernelSpec { name, dtype, ranges, scalars, target, assign, value, .. } = spec;
        // Bounds of a checked kernel are below 2^62.
        let range = |(name, Range { start, end })| RangeForm { name, start: start as i64, end: end as i64 };
        let ranges = ranges.into_iter().map(range).collect();
        Self { name, dtype, inputs, output, ranges, scalars, target, assign, value }
    }
}

impl TryFrom<KernelForm> for Kernel {
    type Error = String;

    fn try_from(form: KernelForm) -> Result<Self, String> {
        let KernelForm { name, dtype, inputs, output, ranges, scalars, target, assign, value } = form;
        let tensor = |tensor: Tensor| (tensor.name, tensor.shape.into_iter().map(|extent| extent as i128).collect());
        let spec = KernelSpec {
            name,
            dtype,
            inputs: inputs.into_iter().map(tensor).collect(),
            output: tensor(output),
            ranges: ranges.into_iter().map(|range| (range.name, range.start.into()..range.end.into())).collect(),
            scalars,
            moduli: Vec::new(),
            target,
            assign,
            value,
        };
        spec.check().map_err(|error| format!("kernel `{name}`: {error}"))
    }
}

/// As in a kernel.
impl fmt::Display for Assign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(running) => write!(f, "{running}="),
            // As in a file.
            _ => self.serialize(f),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {{\n    {}\n}}", self.head(), self.statement())
    }
}

/// The half-open range of values of an index expression, without its modulus, over variables that are not empty; these count from
/// their starts if it is as `written`, else from 0.
pub(crate) fn span(index: &Affine, vars: &[IndexVar], written: bool) -> (i128, i128) {
    let start = (i128::from(index.constant), i128::from(index.constant) + 1);
    let span = index.terms.iter().try_fold(start, |(low, high), &(name, factor)| {
        let var = vars.iter().find(|var| var.name == name);
        let (start, extent) = var.map_or((0, 1), |var| (i128::from(var.start), var.extent as i128));
        let first = if written { start } else { 0 };
        let ends = [first, first + extent - 1].map(|value| i128::from(factor) * value);
        Some((low.checked_add(ends[0].min(ends[1]))?, high.checked_add(ends[0].max(ends[1]))?))
    });
    // A product of two numbers fits 128 bits, a sum of many need not; it is outside of every tensor.
    span.unwrap_or((i128::MIN, i128::MAX))
}
