//! Functions of `f64`.

use super::{LN2_HIGH, LN2_LOW, ROUND, powers_of_two, reduced_far};

/// `(exp(r) - 1 - r - r^2/2) / r^3` for `|r| <= ln(2)/2`, to 1e-17.
const EXP: [f64; 10] = [
    0.16666666666666669,
    0.041666666666666664,
    0.008333333333330062,
    0.0013888888888886552,
    0.00019841269863053618,
    2.4801587317144498e-05,
    2.7557268459997064e-06,
    2.755728296954995e-07,
    2.510038549551032e-08,
    2.0911236630261545e-09,
];

/// `(log((1 + s)/(1 - s)) - 2s) / s^3` in terms of `s^2`, for `|s| <= (sqrt(2) - 1)/(sqrt(2) + 1)`, to 4e-16.
const LOG: [f64; 7] = [
    0.666666666666667,
    0.39999999999899455,
    0.2857142862599856,
    0.2222221113102852,
    0.1818288939967772,
    0.15331712479381301,
    0.14616562422104645,
];

/// `(sin(a) - a) / a^3` in terms of `a^2`, for `|a| <= pi/4`; from FreeBSD's `k_sin.c`, as the next.
const SIN: [f64; 6] = [
    -0.16666666666666632,
    0.00833333333332249,
    -0.0001984126982985795,
    2.7557313707070068e-06,
    -2.5050760253406863e-08,
    1.58969099521155e-10,
];

/// `(cos(a) - 1 + a^2/2) / a^4` in terms of `a^2`, for `|a| <= pi/4`.
const COS: [f64; 6] = [
    0.0416666666666666,
    -0.001388888888887411,
    2.480158728947673e-05,
    -2.7557314351390663e-07,
    2.087572321298175e-09,
    -1.1359647557788195e-11,
];

/// The polynomial at `x`, its coefficients from the constant on.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = sum * x + coefficients[i];
    }
    sum
}

/// Returns `k`, `r` and `c` with `x = k ln(2) + r + c`, where `c` is what `r` lacks.
#[inline(always)]
fn reduced(x: f64) -> (f64, f64, f64) {
    let k = (x * std::f64::consts::LOG2_E + ROUND) - ROUND;
    let (high, low) = (x - k * LN2_HIGH, k * LN2_LOW);
    let r = high - low;
    (k, r, (high - r) - low)
}

#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    // Beyond, it is infinite or 0; a NaN stays.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (k, r, c) = reduced(x);
    let sum = 1.0 + r;
    let rest = (1.0 - sum) + r;
    let value = sum + (rest + (c + (r * r) * (0.5 + r * polynomial(&EXP, r))));
    let [first, second] = powers_of_two(k);
    value * first * second
}

#[inline(always)]
pub(crate) fn log(x: f64) -> f64 {
    let is_small = x < f64::MIN_POSITIVE;
    let normal = if is_small { x * 18014398509481984.0 } else { x };
    // x = 2^k (1 + f), where 1 + f is between the square roots of 1/2 and 2.
    let bits = normal.to_bits().wrapping_add(0x3ff0_0000_0000_0000 - 0x3fe6_a09e_0000_0000);
    let k = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - (4503599627370496.0 + 1023.0);
    let k = if is_small { k - 54.0 } else { k };
    let f = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e_0000_0000)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let half = 0.5 * f * f;
    let value = k * LN2_HIGH - ((half - (s * (half + z * polynomial(&LOG, z)) + k * LN2_LOW)) - f);
    let value = if x < f64::INFINITY { value } else { x };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x < 0.0 { f64::NAN } else { value }
}

#[inline(always)]
pub(crate) fn tanh(x: f64) -> f64 {
    let a = x.abs();
    // From there on, it rounds to 1.
    let a = if a > 20.0 { 20.0 } else { a };
    let (k, r, c) = reduced(2.0 * a);
    // exp(2a) - 1 = n + n_low, from exp(r) - 1 = p + p_low.
    let u = (r * r) * (0.5 + r * polynomial(&EXP, r)) + c;
    let p = r + u;
    let p_low = (r - p) + u;
    let scale = f64::from_bits((k + (ROUND + 1023.0)).to_bits() << 52);
    let (scaled, below) = (scale * p, scale - 1.0);
    let n = below + scaled;
    let n_low = ((below - n) + scaled) + scale * p_low;
    // exp(2a) + 1 = d + d_low
    let d = n + 2.0;
    let d_low = ((2.0 - d) + n) + n_low;
    let inverse = 1.0 / d;
    let q = n * inverse;
    // What q d lacks of n, by products of half as many digits, which are exact.
    let (q_high, d_high) = (upper(q), upper(d));
    let (q_rest, d_rest) = (q - q_high, d - d_high);
    let rest = (((n - q_high * d_high) - q_high * d_rest) - q_rest * d_high) - q_rest * d_rest;
    (q + (rest + (n_low - q * d_low)) * inverse).copysign(x)
}

/// The upper 26 digits.
#[inline(always)]
fn upper(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & 0xffff_ffff_f800_0000)
}

/// The largest argument of a sine or cosine that is reduced without long integers.
pub(crate) const NEAR: f64 = 1e8;

/// The multiples of `pi/2` that are nearest to an argument, of which the last two digits count, and what is left in two parts.
type Angle = (u64, f64, f64);

/// Reduces an argument of at most [`NEAR`]: `pi/2` is taken away in four parts, of which the first two are exact.
#[inline(always)]
fn reduced_near(x: f64) -> Angle {
    let rounded = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = rounded - ROUND;
    let y = (x - n * 1.5707963407039642) + n * 1.3909067564377153e-08;
    let part = n * -4.97899623147991e-17;
    let left = y - part;
    let low = (y - left) - part;
    let part = n * -1.9034889620193266e-25;
    let high = left - part;
    (rounded.to_bits(), high, low + ((left - high) - part))
}

#[inline(always)]
fn sine_of(angle: Angle) -> f64 {
    let (quadrant, a, low) = angle;
    let z = a * a;
    let cube = z * a;
    let [_, tail @ ..] = SIN;
    let sine = a - ((z * (0.5 * low - cube * polynomial(&tail, z)) - low) - cube * SIN[0]);
    let half = 0.5 * z;
    let w = 1.0 - half;
    let cosine = w + (((1.0 - w) - half) + (z * (z * polynomial(&COS, z)) - a * low));
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(value.to_bits() ^ ((quadrant & 2) << 62))
}

#[inline(always)]
pub(crate) fn sin_near(x: f64) -> f64 {
    let value = sine_of(reduced_near(x));
    if x == 0.0 { x } else { value }
}

#[inline(always)]
pub(crate) fn cos_near(x: f64) -> f64 {
    let (quadrant, high, low) = reduced_near(x);
    sine_of((quadrant.wrapping_add(1), high, low))
}

#[cold]
#[inline(never)]
pub(super) fn sin_far(x: f64, quarters: u64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let (quadrant, high, low) = reduced_far(x);
    sine_of((quadrant.wrapping_add(quarters), high, low))
}

#[inline(always)]
pub(crate) fn sin(x: f64) -> f64 {
    if x.abs() > NEAR { sin_far(x, 0) } else { sin_near(x) }
}

#[inline(always)]
pub(crate) fn cos(x: f64) -> f64 {
    if x.abs() > NEAR { sin_far(x, 1) } else { cos_near(x) }
}

pub(crate) fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
