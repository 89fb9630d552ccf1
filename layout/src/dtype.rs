//! Element types.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Runs an expression with a name for the Rust type of a [`DType`] that programs compute in.
#[doc(hidden)]
#[macro_export]
macro_rules! with_type {
    ($dtype:expr, $name:ident => $run:expr) => {
        $crate::with_type!(@match $dtype, $name, $run, F32 f32 F64 f64 I32 i32 I64 i64)
    };
    (@match $dtype:expr, $name:ident, $run:expr, $($kind:ident $type:ident)*) => {
        match $dtype {
            $($crate::DType::$kind => {
                type $name = $type;
                $run
            })*
            dtype => unreachable!("programs do not compute in {dtype}; this is a bug in polyshard"),
        }
    };
}

/// The type of an array's elements.
///
/// Plans, costs and bounds support all of them. Programs compute in those that Rust has, see [`native`](Self::native).
///
/// ```
/// use polyshard::prelude::*;
///
/// let dtype: DType = "bf16".parse()?;
/// assert_eq!((dtype.size(), dtype.is_float(), dtype.native().is_ok()), (2, true, false));
/// # Ok::<_, polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 8-bit signed integer; sums are counted as one byte per element, too.
    I8,
    /// 16-bit float with the exponent of 32 bits.
    Bf16,
    /// 32-bit IEEE float.
    F32,
    /// 64-bit IEEE float.
    F64,
    /// 32-bit signed integer, wrapping.
    I32,
    /// 64-bit signed integer, wrapping.
    I64,
}

impl DType {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::I8, Self::Bf16, Self::F32, Self::F64, Self::I32, Self::I64];

    /// The types that programs compute in.
    pub const NATIVE: [Self; 4] = [Self::F32, Self::F64, Self::I32, Self::I64];

    /// Returns the bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Returns the name, which is Rust's if Rust has the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }

    /// Returns NumPy's name of the type; for `bf16`, that of `ml_dtypes`.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert_eq!(DType::ALL.map(DType::numpy_name), ["int8", "bfloat16", "float32", "float64", "int32", "int64"]);
    /// ```
    #[must_use]
    pub fn numpy_name(self) -> &'static str {
        match self {
            Self::I8 => "int8",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I32 => "int32",
            Self::I64 => "int64",
        }
    }

    /// Returns whether elements are floats, so that the order of summation matters.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::Bf16 | Self::F32 | Self::F64)
    }

    /// Checks that programs compute in this type; the others are for planning only.
    ///
    /// # Errors
    /// If Rust does not have the type.
    pub fn native(self) -> Result<(), NotNative> {
        if Self::NATIVE.contains(&self) { Ok(()) } else { Err(NotNative { dtype: self }) }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, UnknownDType> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.name() == text);
        found.ok_or_else(|| UnknownDType { name: text.to_owned() })
    }
}

/// A name that is not an element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no element type `{name}`; the types are {}", DType::ALL.map(DType::name).join(", "))]
pub struct UnknownDType {
    /// The name.
    pub name: String,
}

/// An element type that programs cannot compute in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("programs cannot compute in {dtype}; they compute in {}", DType::NATIVE.map(DType::name).join(", "))]
pub struct NotNative {
    /// The type.
    pub dtype: DType,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for dtype in DType::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
            assert_eq!(serde_json::to_string(&dtype).expect("JSON"), format!("\"{dtype}\""));
        }
        let error = "f16".parse::<DType>().expect_err("there is none").to_string();
        assert_eq!(error, "no element type `f16`; the types are i8, bf16, f32, f64, i32, i64");
    }
}
