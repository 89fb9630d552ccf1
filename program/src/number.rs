//! Rust types as element types, and numbers of them.

use polyshard_layout::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A Rust type that can be the element type of a kernel: `f32`, `f64`, `i32` or `i64`.
pub trait ScalarType: Copy + 'static {
    /// The type as a value.
    const DTYPE: DType;

    /// Returns the value as a number of a kernel.
    fn number(self) -> Number;
}

macro_rules! scalar_types {
    ($($type:ident $dtype:ident $number:ident;)*) => {$(
        impl ScalarType for $type {
            const DTYPE: DType = DType::$dtype;
            fn number(self) -> Number {
                Number::$number(self.into())
            }
        }
    )*};
}
scalar_types! { f32 F32 Float; f64 F64 Float; i32 I32 Int; i64 I64 Int; }

/// A number in a kernel: a literal, or a scalar captured from the surroundings.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::Number;
/// assert!(Number::Int(2).fits(DType::F32) && !Number::Float(0.5).fits(DType::I32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NumberForm", into = "NumberForm")]
pub enum Number {
    /// An integer, of any element type.
    Int(i64),
    /// A float, of a float type.
    Float(f64),
}

impl Number {
    /// Returns whether the number fits the element type: an integer in range, or for floats any that does not become
    /// infinite.
    #[must_use]
    pub fn fits(self, dtype: DType) -> bool {
        match (dtype, self) {
            (DType::I8, Self::Int(value)) => i8::try_from(value).is_ok(),
            (DType::I32, Self::Int(value)) => i32::try_from(value).is_ok(),
            (DType::I8 | DType::I32 | DType::I64, Self::Float(_)) => false,
            (DType::Bf16 | DType::F32, Self::Float(value)) => !value.is_finite() || (value as f32).is_finite(),
            (DType::I64 | DType::Bf16 | DType::F32 | DType::F64, _) => true,
        }
    }

    /// Returns the number as a float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// A number in a file; JSON has no infinities and no NaN, so these are strings.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NumberForm {
    Int(i64),
    Float(f64),
    Text(String),
}

impl From<Number> for NumberForm {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(value) => Self::Int(value),
            Number::Float(value) if value.is_finite() => Self::Float(value),
            Number::Float(value) => Self::Text(value.to_string()),
        }
    }
}

impl TryFrom<NumberForm> for Number {
    type Error = String;

    fn try_from(form: NumberForm) -> Result<Self, String> {
        match form {
            NumberForm::Int(value) => Ok(Self::Int(value)),
            NumberForm::Float(value) => Ok(Self::Float(value)),
            NumberForm::Text(text) => match &*text {
                "NaN" => Ok(Self::Float(f64::NAN)),
                "inf" => Ok(Self::Float(f64::INFINITY)),
                "-inf" => Ok(Self::Float(f64::NEG_INFINITY)),
                _ => Err(format!("`{text}` is not a number; write it without quotes, or \"NaN\", \"inf\" or \"-inf\"")),
            },
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
        }
    }
}
