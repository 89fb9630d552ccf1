//! Functions of `f32`.

use super::angle::PI_OVER_2;
use super::double::{self, sine_far};
use std::f32::consts::{LN_2, LOG2_E};
use std::f64::consts::FRAC_2_PI;

/// `(exp(r) - 1 - r) / r^2` for `|r| <= ln(2)/2`, to 5e-9.
const EXP: [f32; 6] = [0.5, 0.16666667, 0.041666467, 0.0083333105, 0.001393365, 0.00019890991];

/// As [`LOG`](super::double) of `f64`, to 3e-8.
const LOG: [f32; 4] = [0.6666667, 0.40000123, 0.2855082, 0.23330562];

/// ln(2) less `LN_2`.
const LN_2_REST: f32 = -1.9046542e-09;

/// The arguments beyond which an exponential is infinite, and 0.
const OVERFLOW: f32 = 89.0;
const UNDERFLOW: f32 = -104.0;

elementary!(f32, u32, 24, 127);

/// `(sin(a) - a) / a^3` in terms of `a^2`, for `|a| <= pi/4`, to 3e-11; sines are computed in `f64` and rounded once at the end.
const SIN: [f64; 4] = [-0.16666666663853044, 0.008333331873837089, -0.00019840086263755443, 2.7249864655139585e-06];

/// `(cos(a) - 1 + a^2/2) / a^4` in terms of `a^2`, for `|a| <= pi/4`, to 3e-12.
const COS: [f64; 4] = [0.04166666666431933, -0.0013888887671288108, 2.480059998353171e-05, -2.7300908167996537e-07];

/// The sine of an argument of at most [`NEAR`] and of a number of right angles.
#[inline(always)]
fn sine_near(x: f32, quarters: u64) -> f32 {
    let x = f64::from(x);
    let rounded = x.mul_add(FRAC_2_PI, double::ROUND);
    let n = rounded - double::ROUND;
    let a = n.mul_add(-PI_OVER_2[1], n.mul_add(-PI_OVER_2[0], x));
    let quadrant = rounded.to_bits().wrapping_add(quarters);
    let z = a * a;
    let sine = double::polynomial(&SIN, z).mul_add(a * z, a);
    let cosine = double::polynomial(&COS, z).mul_add(z * z, z.mul_add(-0.5, 1.0));
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(value.to_bits() ^ ((quadrant & 2) << 62)) as f32
}

pub(crate) fn pow(x: f32, y: f32) -> f32 {
    libm::powf(x, y)
}
