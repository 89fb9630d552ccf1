//! Functions of floats, at most 1 ulp from the exact value, with the same bits on every processor.
//!
//! They are written without branches and tables, and no product is fused with a sum, so that a loop over a row of any
//! kernel becomes a loop over vectors, and gives what one point alone gives. The C library's functions differ by
//! its version and by the processor, and are calls.

mod angle;
pub(crate) mod double;
pub(crate) mod single;

use angle::reduced_far;

/// Added to a float and taken away, it rounds it to an integer, which is in its lower bits in between.
const ROUND: f64 = 6755399441055744.0;

/// ln(2) in two parts, of which the first has so few digits that its multiples are exact.
const LN2_HIGH: f64 = 0.6931471803691238;
const LN2_LOW: f64 = 1.9082149292705877e-10;

/// Two factors whose product is `2^k`, which itself may be no float.
#[inline(always)]
fn powers_of_two(k: f64) -> [f64; 2] {
    let first = (k * 0.5 + ROUND) - ROUND;
    [first, k - first].map(|k| f64::from_bits((k + (ROUND + 1023.0)).to_bits() << 52))
}

#[cfg(test)]
mod tests;
