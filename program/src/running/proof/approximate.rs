//! Values of formulas at a point, each with a bound on its rounding error.
//!
//! Two results that differ by more than their bounds are different over the reals, so cancellation never refutes a true
//! claim. Where nothing is known, as after a division by 0 or a comparison of values that are too close, the bound is
//! infinite or a NaN, and comparisons with it fail.
//! Tests: `program/src/running/proof/tests.rs`.

use crate::number::Number;
use crate::value::{Conditional, Function, Value};
use polyshard_layout::Name;
use std::collections::HashMap;

/// Results below this may be rounded by more than their last digit, since floats have no smaller exponents.
const TINY: f64 = 1e-290;

/// A float, and how far from it the value over the reals may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Approximate {
    pub(super) value: f64,
    pub(super) error: f64,
}

const UNKNOWN: Approximate = Approximate { value: f64::NAN, error: f64::NAN };

impl Approximate {
    pub(super) fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Returns whether the two are known to differ, by more than this part of the larger one.
    pub(super) fn differs(self, other: Self, part: f64) -> bool {
        let margin = part * self.value.abs().max(other.value.abs());
        (self.value - other.value).abs() > self.error + other.error + margin
    }

    /// Returns whether anything is known.
    pub(super) fn is_known(self) -> bool {
        self.value.is_finite() && self.error.is_finite()
    }

    /// Returns whether it is known which of the two is greater, or that they are equal.
    fn is_comparable(self, other: Self) -> bool {
        self.error + other.error == 0.0 || self.differs(other, 0.0)
    }

    /// The result of a function with errors of its own, such as those of a library or of a result that underflows.
    fn rounded(value: f64, error: f64) -> Self {
        let underflow = if value.abs() < TINY { f64::MIN_POSITIVE } else { 0.0 };
        Self { value, error: error + 4.0 * f64::EPSILON * value.abs() + underflow }
    }

    fn call(self, function: Function) -> Self {
        let Self { value: x, error } = self;
        // How far the logarithm may be off.
        let relative = if error == 0.0 { 0.0 } else { -(-error / x.abs()).ln_1p() };
        let jump = |is_certain: bool| if is_certain { 0.0 } else { f64::INFINITY };
        match function {
            Function::Exp => Self::rounded(x.exp(), x.exp() * error.exp_m1()),
            Function::Log => Self::rounded(x.ln(), relative),
            Function::Sqrt if error == 0.0 => Self::rounded(x.sqrt(), 0.0),
            Function::Sqrt => Self::rounded(x.sqrt(), error / (x - error).sqrt()),
            Function::Tanh => Self::rounded(x.tanh(), error),
            Function::Sin => Self::rounded(x.sin(), error),
            Function::Cos => Self::rounded(x.cos(), error),
            Function::Floor => Self { value: x.floor(), error: jump((x - error).floor() == (x + error).floor()) },
            Function::Abs => Self { value: x.abs(), error },
            Function::Sign => {
                let sign = if x == 0.0 { 0.0 } else { x.signum() };
                Self { value: sign, error: jump(self.is_comparable(Self::exact(0.0))) }
            }
        }
    }

    fn pow(self, power: Self) -> Self {
        let value = self.value.powf(power.value);
        if self.error + power.error == 0.0 {
            return Self::rounded(value, 0.0);
        }
        // It is exp(power * log(self)), for a base that is positive.
        let logarithm = self.call(Function::Log);
        let exponent = power.mul(logarithm);
        Self::rounded(value, value.abs() * exponent.error.exp_m1())
    }

    /// The larger of two, if `sign` is 1, or the smaller, if it is -1.
    fn extreme(self, other: Self, sign: f64) -> Self {
        let larger = if sign * self.value >= sign * other.value { self } else { other };
        let error = if self.is_comparable(other) { larger.error } else { self.error + other.error };
        Self { value: larger.value, error }
    }
    fn neg(self) -> Self {
        Self { value: -self.value, ..self }
    }

    pub(super) fn add(self, other: Self) -> Self {
        let (a, b) = (self.value, other.value);
        let sum = a + b;
        // The rounding error itself (D. E. Knuth, "The Art of Computer Programming", volume 2, 4.2.2, theorem B).
        let second = sum - a;
        let rounding = (a - (sum - second)) + (b - second);
        Self { value: sum, error: self.error + other.error + rounding.abs() }
    }

    fn mul(self, other: Self) -> Self {
        let (a, b) = (self.value, other.value);
        let product = a * b;
        let error = a.abs() * other.error + b.abs() * self.error + self.error * other.error;
        let is_exact = a == 0.0 || b == 0.0 || product.abs() > TINY && a.mul_add(b, -product) == 0.0;
        if is_exact && error == 0.0 { Self::exact(product) } else { Self::rounded(product, error) }
    }

    fn div(self, other: Self) -> Self {
        let (a, b) = (self.value, other.value);
        let quotient = a / b;
        if b.abs() <= other.error {
            return Self { value: quotient, error: f64::INFINITY };
        }
        let error = (self.error + quotient.abs() * other.error) / (b.abs() - other.error);
        let is_exact = a == 0.0 || a.abs().min(quotient.abs()) > TINY && (-quotient).mul_add(b, a) == 0.0;
        if is_exact && error == 0.0 { Self::exact(quotient) } else { Self::rounded(quotient, error) }
    }
}

/// Returns the value of a formula; of names that are not known, and of elements, nothing is known.
pub(super) fn evaluate(value: &Value, known: &HashMap<Name, Approximate>) -> Approximate {
    let eval = |value: &Value| evaluate(value, known);
    match value {
        Value::Access(_) | Value::Index(_) => UNKNOWN,
        Value::Literal(number) => literal(*number),
        Value::Scalar(name) => known.get(name).copied().unwrap_or(UNKNOWN),
        Value::Neg(a) => eval(a).neg(),
        Value::Add(a, b) => eval(a).add(eval(b)),
        Value::Sub(a, b) => eval(a).add(eval(b).neg()),
        Value::Mul(a, b) => eval(a).mul(eval(b)),
        Value::Div(a, b) => eval(a).div(eval(b)),
        Value::Call(function, a) => eval(a).call(*function),
        Value::Max(a, b) => eval(a).extreme(eval(b), 1.0),
        Value::Min(a, b) => eval(a).extreme(eval(b), -1.0),
        Value::Pow(a, b) => eval(a).pow(eval(b)),
        Value::If(choice) => {
            let Conditional { compare, left, right, then, otherwise } = &**choice;
            let (left, right) = (eval(left), eval(right));
            let chosen = eval(if compare.holds(left.value, right.value) { then } else { otherwise });
            let error = if left.is_comparable(right) { chosen.error } else { f64::INFINITY };
            Approximate { error, ..chosen }
        }
    }
}

/// A literal is the decimal number that was written: 0.1 is one tenth.
fn literal(number: Number) -> Approximate {
    let value = number.as_f64();
    let is_exact = (value * 1024.0).fract() == 0.0 && value.abs() < 2f64.powi(f64::MANTISSA_DIGITS as i32);
    Approximate { value, error: if is_exact { 0.0 } else { f64::EPSILON * value.abs() } }
}
