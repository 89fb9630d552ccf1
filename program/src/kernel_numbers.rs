//! Checks that numbers and functions of a kernel fit its element type.

use crate::kernel::KernelSpec;
use crate::kernel_error::KernelError;
use crate::number::Number;
use crate::value::Value;
use polyshard_layout::{DType, Name};

/// Checks literals, scalars, divisors and functions.
///
/// Literals become unsigned, as they are in source, except for the smallest integer, which needs its sign.
pub(crate) fn check(spec: &mut KernelSpec) -> Result<(), KernelError> {
    let dtype = spec.dtype;
    spec.value.rewrite(&mut |value| {
        if let Some(literal) = least(value, dtype).or_else(|| unsigned(value, dtype)) {
            *value = literal;
        }
    });
    for &(name, number) in &spec.scalars {
        element(name.as_ref(), number, dtype)?;
    }
    check_value(&spec.value, dtype, &spec.scalars)
}

/// The smallest integer has no positive counterpart, so `-2147483648` is one literal of `i32`.
fn least(value: &Value, dtype: DType) -> Option<Value> {
    let Value::Neg(inner) = value else { return None };
    let Value::Literal(Number::Int(number)) = **inner else { return None };
    let negated = number.checked_neg()?;
    let meant = !Number::Int(number).fits(dtype) && Number::Int(negated).fits(dtype);
    meant.then_some(Value::Literal(Number::Int(negated)))
}

/// A negative literal as the negation of a positive one.
fn unsigned(value: &Value, dtype: DType) -> Option<Value> {
    let Value::Literal(number) = *value else { return None };
    let negated = match number {
        Number::Int(number) if number < 0 => Number::Int(number.checked_neg()?),
        Number::Float(number) if number.is_sign_negative() => Number::Float(-number),
        _ => return None,
    };
    negated.fits(dtype).then(|| Value::Neg(Box::new(Value::Literal(negated))))
}

/// Checks the literals, divisors and functions of a value, with these scalars.
pub(crate) fn check_value(value: &Value, dtype: DType, scalars: &[(Name, Number)]) -> Result<(), KernelError> {
    for part in value.parts() {
        check_value(part, dtype, scalars)?;
    }
    match value {
        Value::Literal(Number::Float(number)) if !number.is_finite() => {
            Err(KernelError::NotFinite { number: number.to_string() })
        }
        Value::Literal(number) => element(&number.to_string(), *number, dtype),
        Value::Scalar(name) if scalars.iter().all(|scalar| scalar.0 != *name) => {
            Err(KernelError::UnknownScalar { name: *name })
        }
        Value::Call(function, _) if function.is_of_floats() && !dtype.is_float() => {
            Err(KernelError::FloatFunction { function: function.name(), dtype: dtype.name() })
        }
        Value::Pow(..) if !dtype.is_float() => Err(KernelError::FloatFunction { function: "pow", dtype: dtype.name() }),
        Value::Div(_, b) if !dtype.is_float() && b.integer(scalars) == Some(0) => {
            Err(KernelError::BadDivisor { divisor: b.to_string() })
        }
        _ => Ok(()),
    }
}

fn element(shown: &str, number: Number, dtype: DType) -> Result<(), KernelError> {
    match number {
        Number::Float(_) if !dtype.is_float() => {
            Err(KernelError::FloatInInteger { number: shown.into(), dtype: dtype.name() })
        }
        _ if number.fits(dtype) => Ok(()),
        _ => {
            let value = number.to_string();
            let number = if value == shown { value } else { format!("{shown} = {value}") };
            Err(KernelError::NumberTooLarge { number, dtype: dtype.name() })
        }
    }
}

impl Value {
    /// Returns the value over integers, with these scalars, or `None` if it is known only at run time.
    #[must_use]
    pub fn integer(&self, scalars: &[(Name, Number)]) -> Option<i64> {
        let number = |number: Number| match number {
            Number::Int(value) => Some(value),
            Number::Float(_) => None,
        };
        let pair = |a: &Self, b: &Self| Some((a.integer(scalars)?, b.integer(scalars)?));
        match self {
            Self::Access(_)
            | Self::Index(_)
            | Self::Call(..)
            | Self::Max(..)
            | Self::Min(..)
            | Self::Pow(..)
            | Self::If(_) => None,
            Self::Literal(literal) => number(*literal),
            Self::Scalar(name) => number(scalars.iter().find(|scalar| scalar.0 == *name)?.1),
            Self::Neg(value) => Some(value.integer(scalars)?.wrapping_neg()),
            Self::Add(a, b) => pair(a, b).map(|(a, b)| a.wrapping_add(b)),
            Self::Sub(a, b) => pair(a, b).map(|(a, b)| a.wrapping_sub(b)),
            Self::Mul(a, b) => pair(a, b).map(|(a, b)| a.wrapping_mul(b)),
            Self::Div(a, b) => pair(a, b).and_then(|(a, b)| a.checked_div(b)),
        }
    }
}
