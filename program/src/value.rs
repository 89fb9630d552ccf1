//! Values: the right-hand side of a kernel, as a tree over elements, numbers and scalars.
//! Tests: `program/src/kernel_check/tests.rs`.

use crate::affine::Affine;
use crate::number::Number;
use polyshard_layout::{Name, joined};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The right-hand side of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// An element of an input.
    Access(Access),
    /// The value of an index in the statement instance, as a number: `i`.
    Index(Affine),
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
    /// `a / b`; for integers truncated, and the program panics if `b` is 0.
    Div(Box<Value>, Box<Value>),
    /// A function of one value, `exp(a)`.
    Call(Function, Box<Value>),
    /// `max(a, b)`; a NaN if one of them is, and 0 is greater than -0.
    Max(Box<Value>, Box<Value>),
    /// `min(a, b)`; a NaN if one of them is, and -0 is smaller than 0.
    Min(Box<Value>, Box<Value>),
    /// `pow(a, b)`: a float to the power of a float.
    Pow(Box<Value>, Box<Value>),
    /// One of two values, chosen by a comparison.
    If(Box<Conditional>),
}

/// `if left < right { then } else { otherwise }`; only the value that is chosen is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditional {
    /// How the sides are compared.
    pub compare: Comparison,
    /// The left side of the comparison.
    pub left: Value,
    /// The right side.
    pub right: Value,
    /// The value where the comparison holds.
    pub then: Value,
    /// The value where it does not.
    #[serde(rename = "else")]
    pub otherwise: Value,
}

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// e to the power of a float.
    Exp,
    /// The natural logarithm of a float.
    Log,
    /// The square root of a float.
    Sqrt,
    /// The hyperbolic tangent of a float.
    Tanh,
    /// The sine of a float.
    Sin,
    /// The cosine of a float.
    Cos,
    /// The greatest whole number that is not greater than a float.
    Floor,
    /// The absolute value; for the smallest integer, which has no positive counterpart, itself.
    Abs,
    /// The sign: 1, -1 or 0; for -0 and NaN, themselves.
    Sign,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 9] =
        [Self::Exp, Self::Log, Self::Sqrt, Self::Tanh, Self::Sin, Self::Cos, Self::Floor, Self::Abs, Self::Sign];

    /// Returns the function's name in a kernel.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Sqrt => "sqrt",
            Self::Tanh => "tanh",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Floor => "floor",
            Self::Sign => "sign",
            Self::Abs => "abs",
        }
    }

    /// Returns whether the function is one of floats only.
    #[must_use]
    pub fn is_of_floats(self) -> bool {
        !matches!(self, Self::Abs | Self::Sign)
    }
}

/// How two values are compared; nothing but `!=` holds for a NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Comparison {
    /// `<`.
    #[serde(rename = "<")]
    Less,
    /// `<=`.
    #[serde(rename = "<=")]
    LessEqual,
    /// `>`.
    #[serde(rename = ">")]
    Greater,
    /// `>=`.
    #[serde(rename = ">=")]
    GreaterEqual,
    /// `==`.
    #[serde(rename = "==")]
    Equal,
    /// `!=`.
    #[serde(rename = "!=")]
    NotEqual,
}

impl Comparison {
    /// Returns whether the comparison holds.
    #[inline(always)]
    #[must_use]
    pub fn holds<V: PartialOrd>(self, left: V, right: V) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterEqual => left >= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }
}

impl Value {
    /// Returns the accesses of a product of accesses, left to right, or of one access; none for any other value.
    #[must_use]
    pub fn factors(&self) -> Option<Vec<&Access>> {
        match self {
            Self::Access(access) => Some(vec![access]),
            Self::Mul(left, right) => Some([left.factors()?, right.factors()?].concat()),
            _ => None,
        }
    }

    /// Returns the values that this one is made of, left to right.
    pub(crate) fn parts(&self) -> Vec<&Value> {
        match self {
            Self::Access(access) => access.outside.as_deref().into_iter().collect(),
            Self::Index(_) | Self::Literal(_) | Self::Scalar(_) => Vec::new(),
            Self::Neg(value) | Self::Call(_, value) => vec![value],
            Self::Add(a, b)
            | Self::Sub(a, b)
            | Self::Mul(a, b)
            | Self::Div(a, b)
            | Self::Max(a, b)
            | Self::Min(a, b)
            | Self::Pow(a, b) => vec![a, b],
            Self::If(choice) => vec![&choice.left, &choice.right, &choice.then, &choice.otherwise],
        }
    }

    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Self::Access(access) => access.outside.as_deref_mut().into_iter().collect(),
            Self::Index(_) | Self::Literal(_) | Self::Scalar(_) => Vec::new(),
            Self::Neg(value) | Self::Call(_, value) => vec![value],
            Self::Add(a, b)
            | Self::Sub(a, b)
            | Self::Mul(a, b)
            | Self::Div(a, b)
            | Self::Max(a, b)
            | Self::Min(a, b)
            | Self::Pow(a, b) => vec![a, b],
            Self::If(choice) => {
                let Conditional { left, right, then, otherwise, .. } = &mut **choice;
                vec![left, right, then, otherwise]
            }
        }
    }

    /// Returns the accesses, left to right.
    #[must_use]
    pub fn accesses(&self) -> Vec<&Access> {
        match self {
            Self::Access(access) => vec![access],
            _ => self.parts().into_iter().flat_map(Self::accesses).collect(),
        }
    }

    /// Returns the indices that are used as numbers, left to right.
    #[must_use]
    pub fn indices(&self) -> Vec<&Affine> {
        match self {
            Self::Index(index) => vec![index],
            _ => self.parts().into_iter().flat_map(Self::indices).collect(),
        }
    }

    /// Returns whether it is a number or a scalar, perhaps negated.
    pub(crate) fn is_number(&self) -> bool {
        match self {
            Self::Literal(_) | Self::Scalar(_) => true,
            Self::Neg(value) => value.is_number(),
            _ => false,
        }
    }

    /// Changes every node of the tree, a node before its parts.
    pub fn rewrite(&mut self, change: &mut impl FnMut(&mut Value)) {
        change(self);
        self.parts_mut().into_iter().for_each(|part| part.rewrite(change));
    }
}

/// One access to a tensor, `A[2*i + r, k]`, or `A[i - 1] else 0.0`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The tensor.
    pub tensor: Name,
    /// One index expression per dimension.
    pub index: Vec<Affine>,
    /// The value that is read where an index is outside of the tensor: a number or a scalar, perhaps negated. Without
    /// it, the index of a checked kernel is always inside.
    #[serde(default, rename = "else", skip_serializing_if = "Option::is_none")]
    pub outside: Option<Box<Value>>,
}

impl Access {
    /// Returns the access at these indices, all of them inside the tensor.
    #[must_use]
    pub fn new(tensor: Name, index: Vec<Affine>) -> Self {
        Self { tensor, index, outside: None }
    }

    /// Returns the access by index variables alone, `A[m, k]`.
    ///
    /// ```
    /// use polyshard::program::Access;
    /// assert_eq!(Access::plain("A", &["m", "k"]).to_string(), "A[m, k]");
    /// ```
    #[must_use]
    pub fn plain(tensor: impl Into<Name>, indices: &[&str]) -> Self {
        Self::new(tensor.into(), indices.iter().map(|name| Affine::new([(name.into(), 1)], 0)).collect())
    }

    /// Whether a variable moves one of the indices.
    #[doc(hidden)]
    #[must_use]
    pub fn mentions(&self, name: Name) -> bool {
        self.index.iter().any(|index| index.coefficient(name) != 0)
    }

    /// Returns the access that is `value` where an index is outside the tensor.
    ///
    /// ```
    /// use polyshard::program::{Access, Affine, Number, Value};
    /// let before = Access::new("A".into(), vec![Affine::new([("i".into(), 1)], -1)]);
    /// assert_eq!(before.or_else(Value::Literal(Number::Float(0.0))).to_string(), "A[i - 1] else 0.0");
    /// ```
    #[must_use]
    pub fn or_else(self, value: Value) -> Self {
        Self { outside: Some(Box::new(value)), ..self }
    }

    /// Returns the access with every index [unwrapped](Affine::unwrapped).
    #[must_use]
    pub fn unwrapped(&self) -> Self {
        Self { index: self.index.iter().map(Affine::unwrapped).collect(), ..self.clone() }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.tensor, joined(&self.index, ", "))?;
        match &self.outside {
            None => Ok(()),
            Some(value) => write!(f, " else {value}"),
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As in a kernel, and in a file.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // If indices count from 0, an index written as `i` may be `i + 1`.
        let shifted = |value: &Value| matches!(value, Self::Index(index) if index.as_variable().is_none());
        // The value after an `else` ends with the access, which operators do not show.
        let is_open =
            |value: &Value| is_choice(value) || matches!(value, Self::Access(access) if access.outside.is_some());
        let sum = |value: &Value| matches!(value, Self::Add(..) | Self::Sub(..)) || is_open(value) || shifted(value);
        let product = |value: &Value| matches!(value, Self::Mul(..) | Self::Div(..) | Self::Neg(..)) || sum(value);
        let group = |value: &Value, inside: bool| if inside { format!("({value})") } else { value.to_string() };
        match self {
            Self::Access(access) => write!(f, "{access}"),
            Self::Index(index) => write!(f, "{index}"),
            Self::Literal(number) => write!(f, "{number}"),
            Self::Scalar(name) => write!(f, "{name}"),
            Self::Neg(value) => write!(f, "-{}", group(value, product(value))),
            Self::Add(a, b) => write!(f, "{} + {}", group(a, is_open(a)), group(b, sum(b))),
            Self::Sub(a, b) => write!(f, "{} - {}", group(a, is_open(a)), group(b, sum(b))),
            Self::Mul(a, b) => write!(f, "{} * {}", group(a, sum(a)), group(b, product(b))),
            Self::Div(a, b) => write!(f, "{} / {}", group(a, sum(a)), group(b, product(b))),
            Self::Call(function, value) => write!(f, "{function}({value})"),
            Self::Max(a, b) => write!(f, "max({a}, {b})"),
            Self::Min(a, b) => write!(f, "min({a}, {b})"),
            Self::Pow(a, b) => write!(f, "pow({a}, {b})"),
            Self::If(choice) => {
                let Conditional { compare, left, right, then, otherwise } = &**choice;
                let (left, right) = (group(left, is_open(left)), group(right, is_open(right)));
                write!(f, "if {left} {compare} {right} {{ {then} }} else ")?;
                match otherwise {
                    Self::If(_) => write!(f, "{otherwise}"),
                    _ => write!(f, "{{ {otherwise} }}"),
                }
            }
        }
    }
}

fn is_choice(value: &Value) -> bool {
    matches!(value, Value::If(_))
}
