//! Functions of `f64`.

use super::angle::reduced_far;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E};

/// `(exp(r) - 1 - r) / r^2` for `|r| <= ln(2)/2`, to 1e-17.
const EXP: [f64; 11] = [
    0.5,
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

/// ln(2) less `LN_2`.
const LN_2_REST: f64 = 2.3190468138462996e-17;

/// The arguments beyond which an exponential is infinite, and 0.
const OVERFLOW: f64 = 710.0;
const UNDERFLOW: f64 = -746.0;

elementary!(f64, u64, 53, 1023);

/// `pi/2` less `FRAC_PI_2`, in two parts, the first of which has 26 digits, so that its products with `n` are exact.
const PI_2_MIDDLE: f64 = 6.123233932053594e-17;
const PI_2_LOW: f64 = 6.36831716351095e-25;

/// The multiple of `pi/2` that is nearest to an argument, of which the last two digits count, and the remainder in two parts.
type Angle = (u64, f64, f64);

/// Reduces an argument of at most [`NEAR`]: multiples of `pi/2` are subtracted in three parts, the first two of which are exact.
#[inline(always)]
fn reduced_near(x: f64) -> Angle {
    let rounded = x.mul_add(FRAC_2_PI, ROUND);
    let n = rounded - ROUND;
    let y = n.mul_add(-FRAC_PI_2, x);
    let part = n * PI_2_MIDDLE;
    let high = y - part;
    (rounded.to_bits(), high, n.mul_add(-PI_2_LOW, (y - high) - part))
}

#[inline(always)]
fn sine((quadrant, a, low): Angle) -> f64 {
    let z = a * a;
    let cube = z * a;
    let [first, tail @ ..] = SIN;
    let rest = z.mul_add(cube.mul_add(-polynomial(&tail, z), 0.5 * low), -low);
    let sine = a - cube.mul_add(-first, rest);
    let half = 0.5 * z;
    let w = 1.0 - half;
    let cosine = w + z.mul_add(z * polynomial(&COS, z), a.mul_add(-low, (1.0 - w) - half));
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(value.to_bits() ^ ((quadrant & 2) << 62))
}

/// The sine of an argument of at most [`NEAR`] and of a number of right angles.
#[inline(always)]
fn sine_near(x: f64, quarters: u64) -> f64 {
    let (quadrant, high, low) = reduced_near(x);
    sine((quadrant.wrapping_add(quarters), high, low))
}

/// As [`sine_near`], of any larger argument.
#[cold]
#[inline(never)]
pub(super) fn sine_far(x: f64, quarters: u64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let (quadrant, high, low) = reduced_far(x);
    sine((quadrant.wrapping_add(quarters), high, low))
}

pub(crate) fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
