//! Kernels: one tensor statement in index notation, as data.
//!
//! A [`KernelSpec`] is what was written; [`KernelSpec::check`] turns it into a [`Kernel`], whose indices
//! are all bound and whose accesses all stay inside their tensors. Everything downstream relies on that.

use crate::dtype::{DType, Number};
use crate::kernel_error::KernelError;
use crate::periodic::Modulus;
use polyshard_layout::Name;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An affine index expression, `sum of coefficient * variable + constant`, perhaps periodic: `(i + 1) % 8`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Affine {
    /// Variables with their coefficients; no variable twice, no coefficient 0.
    pub terms: Vec<(Name, i64)>,
    /// What is added.
    pub constant: i64,
    /// Where the index starts again from 0; the remainder is never negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modulus: Option<Modulus>,
}

impl Affine {
    /// Returns the expression with these terms; equal variables are added up.
    #[must_use]
    pub fn new(terms: impl IntoIterator<Item = (Name, i64)>, constant: i64) -> Self {
        let mut sum: Vec<(Name, i64)> = Vec::new();
        for (name, factor) in terms {
            match sum.iter_mut().find(|term| term.0 == name) {
                Some(term) => term.1 += factor,
                None => sum.push((name, factor)),
            }
        }
        sum.retain(|term| term.1 != 0);
        Self { terms: sum, constant, modulus: None }
    }

    /// Returns the variable, if the expression is nothing else.
    #[must_use]
    pub fn as_variable(&self) -> Option<Name> {
        match (&self.terms[..], self.constant, &self.modulus) {
            (&[(name, 1)], 0, None) => Some(name),
            _ => None,
        }
    }

    /// Returns the coefficient of `name`, 0 if it does not occur.
    #[must_use]
    pub fn coefficient(&self, name: Name) -> i64 {
        self.terms.iter().find(|term| term.0 == name).map_or(0, |term| term.1)
    }
}

/// One access to a tensor, `A[2*i + r, k]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    /// The tensor.
    pub tensor: Name,
    /// One index expression per dimension.
    pub index: Vec<Affine>,
}

/// What the statement does with the value it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Assign {
    /// `=`: the output becomes the sum over the contracted indices, as in einsum.
    #[serde(rename = "=")]
    Set,
    /// `+=`: adds to what the output holds.
    #[serde(rename = "+=")]
    Add,
    /// `*=`: multiplies what the output holds.
    #[serde(rename = "*=")]
    Mul,
    /// `max=`: keeps the greatest.
    #[serde(rename = "max=")]
    Max,
    /// `min=`: keeps the least.
    #[serde(rename = "min=")]
    Min,
}

/// The right-hand side of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// An element of an input.
    Access(Access),
    /// A number written in the kernel.
    Literal(Number),
    /// A scalar captured from the surroundings, by name.
    Scalar(Name),
    /// `-a`.
    Neg(Box<Value>),
    /// `a + b`.
    Add(Box<Value>, Box<Value>),
    /// `a - b`.
    Sub(Box<Value>, Box<Value>),
    /// `a * b`.
    Mul(Box<Value>, Box<Value>),
    /// `a / b`, where `b` holds no access.
    Div(Box<Value>, Box<Value>),
}

impl Value {
    /// Returns the accesses, left to right.
    #[must_use]
    pub fn accesses(&self) -> Vec<&Access> {
        match self {
            Self::Access(access) => vec![access],
            Self::Literal(_) | Self::Scalar(_) => Vec::new(),
            Self::Neg(value) => value.accesses(),
            Self::Add(a, b) | Self::Sub(a, b) | Self::Mul(a, b) | Self::Div(a, b) => {
                let mut all = a.accesses();
                all.extend(b.accesses());
                all
            }
        }
    }
}

/// A tensor of a kernel.
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

/// An index variable with its range `0..extent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IndexVar {
    /// Its name.
    pub name: Name,
    /// The number of values.
    pub extent: usize,
}

/// A kernel as it was written; [`check`](Self::check) makes it a [`Kernel`].
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
    /// Ranges given by hand, `for q in 0..n`.
    pub ranges: Vec<(Name, i128)>,
    /// Captured scalars.
    pub scalars: Vec<(Name, Number)>,
    /// Captured moduli of periodic indices, which may be out of range.
    pub moduli: Vec<(Name, i128)>,
    /// Where the statement writes.
    pub target: Access,
    /// How it writes.
    pub assign: Assign,
    /// What it writes.
    pub value: Value,
}

impl KernelSpec {
    /// Checks the kernel and infers the index variables' extents.
    ///
    /// # Errors
    /// The first [`KernelError`] found.
    pub fn check(self) -> Result<Kernel, KernelError> {
        crate::kernel_check::check(self)
    }
}

/// A checked kernel: indices bound, accesses inside their tensors, extents that do not overflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub(crate) name: Name,
    pub(crate) dtype: DType,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) output: Tensor,
    pub(crate) vars: Vec<IndexVar>,
    pub(crate) scalars: Vec<(Name, Number)>,
    pub(crate) target: Access,
    pub(crate) assign: Assign,
    pub(crate) value: Value,
}

impl Kernel {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> Name {
        self.name
    }

    /// Returns the element type of all tensors.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
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
        &self.scalars
    }

    /// Returns where the statement writes.
    #[must_use]
    pub fn target(&self) -> &Access {
        &self.target
    }

    /// Returns how it writes.
    #[must_use]
    pub fn assign(&self) -> Assign {
        self.assign
    }

    /// Returns what it writes.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the accesses of one tensor: those of an input, or the one of the output.
    #[must_use]
    pub fn accesses_of(&self, tensor: Name) -> Vec<&Access> {
        if tensor == self.output.name {
            return vec![&self.target];
        }
        self.value.accesses().into_iter().filter(|access| access.tensor == tensor).collect()
    }

    /// Returns the statement as text: `C[m, n] += A[m, k] * B[k, n]`.
    #[must_use]
    pub fn statement(&self) -> String {
        format!("{} {} {}", self.target, self.assign, self.value)
    }
}

impl fmt::Display for Affine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(modulus) = self.modulus {
            let sum = Self { modulus: None, ..self.clone() };
            let alone = sum.as_variable().is_some() || sum.terms.is_empty() && sum.constant >= 0;
            return if alone { write!(f, "{sum} % {modulus}") } else { write!(f, "({sum}) % {modulus}") };
        }
        let mut text = String::new();
        for &(name, factor) in &self.terms {
            let sign = match (text.is_empty(), factor < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let times = if factor.unsigned_abs() == 1 { String::new() } else { format!("{}*", factor.unsigned_abs()) };
            text += &format!("{sign}{times}{name}");
        }
        match (text.is_empty(), self.constant) {
            (true, constant) => write!(f, "{constant}"),
            (false, 0) => f.write_str(&text),
            (false, constant) if constant < 0 => write!(f, "{text} - {}", constant.unsigned_abs()),
            (false, constant) => write!(f, "{text} + {constant}"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index: Vec<_> = self.index.iter().map(Affine::to_string).collect();
        write!(f, "{}[{}]", self.tensor, index.join(", "))
    }
}

impl fmt::Display for Assign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Set => "=",
            Self::Add => "+=",
            Self::Mul => "*=",
            Self::Max => "max=",
            Self::Min => "min=",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |value: &Value| matches!(value, Self::Add(..) | Self::Sub(..));
        let product = |value: &Value| matches!(value, Self::Mul(..) | Self::Div(..) | Self::Neg(..)) || sum(value);
        let group = |value: &Value, inside: bool| if inside { format!("({value})") } else { value.to_string() };
        match self {
            Self::Access(access) => write!(f, "{access}"),
            Self::Literal(number) => write!(f, "{number}"),
            Self::Scalar(name) => write!(f, "{name}"),
            Self::Neg(value) => write!(f, "-{}", group(value, product(value))),
            Self::Add(a, b) => write!(f, "{a} + {}", group(b, sum(b))),
            Self::Sub(a, b) => write!(f, "{a} - {}", group(b, sum(b))),
            Self::Mul(a, b) => write!(f, "{} * {}", group(a, sum(a)), group(b, product(b))),
            Self::Div(a, b) => write!(f, "{} / {}", group(a, sum(a)), group(b, product(b))),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |tensor: &Tensor| {
            let shape: Vec<_> = tensor.shape.iter().map(usize::to_string).collect();
            format!("{}: [{}; {}]", tensor.name, self.dtype, shape.join(", "))
        };
        let inputs: Vec<_> = self.inputs.iter().map(shown).collect();
        writeln!(f, "fn {}({}) -> {} {{", self.name, inputs.join(", "), shown(&self.output))?;
        writeln!(f, "    {}", self.statement())?;
        f.write_str("}")
    }
}
