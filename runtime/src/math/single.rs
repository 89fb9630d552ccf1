//! Functions of `f32`, computed in `f64` and rounded once at the end.

use super::double::polynomial;
use super::{LN2_HIGH, LN2_LOW, ROUND};

/// `(exp(r) - 1 - r) / r^2` for `|r| <= ln(2)/2`, to 2e-9.
const EXP: [f64; 6] = [
    0.500000001346581,
    0.16666666681623232,
    0.041666464925285904,
    0.0083333109254809,
    0.0013933649996309251,
    0.00019890990824673654,
];

/// As [`LOG`](super::double) of `f64`, to 2e-9.
const LOG: [f64; 4] = [0.6666666655445935, 0.4000012187067328, 0.2855081731423506, 0.233305624972363];

/// `(sin(a) - a) / a^3` in terms of `a^2`, for `|a| <= pi/4`, to 3e-11.
const SIN: [f64; 4] = [-0.16666666663853044, 0.008333331873837089, -0.00019840086263755443, 2.7249864655139585e-06];

/// `(cos(a) - 1 + a^2/2) / a^4` in terms of `a^2`, for `|a| <= pi/4`, to 3e-12.
const COS: [f64; 4] = [0.04166666666431933, -0.0013888887671288108, 2.480059998353171e-05, -2.7300908167996537e-07];

/// Returns `2^k` and `exp(r) - 1` with `x = k ln(2) + r`.
#[inline(always)]
fn power(x: f64) -> (f64, f64) {
    let k = (x * std::f64::consts::LOG2_E + ROUND) - ROUND;
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    (f64::from_bits((k + (ROUND + 1023.0)).to_bits() << 52), r + r * r * polynomial(&EXP, r))
}

#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let (scale, p) = power(f64::from(x));
    (scale + scale * p) as f32
}

#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    // No `f32` is subnormal as an `f64`.
    let bits = f64::from(x).to_bits().wrapping_add(0x3ff0_0000_0000_0000 - 0x3fe6_a09e_0000_0000);
    let k = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - (4503599627370496.0 + 1023.0);
    let f = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e_0000_0000)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let value = (k * std::f64::consts::LN_2 + s * (2.0 + z * polynomial(&LOG, z))) as f32;
    let value = if x < f32::INFINITY { value } else { x };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    if x < 0.0 { f32::NAN } else { value }
}

#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 10.0 { 10.0 } else { a };
    let (scale, p) = power(2.0 * f64::from(a));
    let n = scale * p + (scale - 1.0);
    ((n / (n + 2.0)) as f32).copysign(x)
}

/// The largest argument of a sine or cosine that is reduced without long integers.
pub(crate) const NEAR: f32 = 1e8;

#[inline(always)]
fn sine(x: f32, quarters: u64) -> f32 {
    let x = f64::from(x);
    let rounded = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = rounded - ROUND;
    let a = ((x - n * 1.5707963407039642) + n * 1.3909067564377153e-08) + n * 4.9789962505147994e-17;
    let quadrant = rounded.to_bits().wrapping_add(quarters);
    let z = a * a;
    let sine = a + a * z * polynomial(&SIN, z);
    let cosine = (1.0 - 0.5 * z) + z * z * polynomial(&COS, z);
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(value.to_bits() ^ ((quadrant & 2) << 62)) as f32
}

#[inline(always)]
pub(crate) fn sin_near(x: f32) -> f32 {
    let value = sine(x, 0);
    if x == 0.0 { x } else { value }
}

#[inline(always)]
pub(crate) fn cos_near(x: f32) -> f32 {
    sine(x, 1)
}

#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    if x.abs() > NEAR { super::double::sin_far(f64::from(x), 0) as f32 } else { sin_near(x) }
}

#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    if x.abs() > NEAR { super::double::sin_far(f64::from(x), 1) as f32 } else { cos_near(x) }
}

pub(crate) fn pow(x: f32, y: f32) -> f32 {
    libm::powf(x, y)
}
