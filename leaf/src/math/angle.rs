//! Reduction of large angles by multiples of a right angle, after M. Payne and R. Hanek, "Radian reduction for trigonometric functions",
//! ACM SIGNUM Newsletter 18(1), 1983.

/// The binary digits of 2/pi.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
];

/// `pi/2` as a sum of two floats.
pub(super) const PI_OVER_2: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17];

/// Returns the multiple of `pi/2` that is nearest to `x`, modulo 4, and the remainder in two parts; `x` is finite and `|x| >= 2^26`.
pub(super) fn reduced_far(x: f64) -> (u64, f64, f64) {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i64 - 1075;
    let mantissa = (x.to_bits() & 0x000f_ffff_ffff_ffff) | 0x0010_0000_0000_0000;
    // Digits of 2/pi that contribute only multiples of 4 are skipped.
    let first = (exponent - 2).max(0) as usize;
    let word = |nth: usize| {
        let (at, shift) = (first / 64 + nth, first % 64);
        (TWO_OVER_PI[at] << shift) | if shift == 0 { 0 } else { TWO_OVER_PI[at + 1] >> (64 - shift) }
    };
    // The product of the mantissa and 192 digits, the upper words first.
    let [low, middle, high] = [2, 1, 0].map(|nth| u128::from(mantissa) * u128::from(word(nth)));
    let middle = middle + (low >> 64);
    let high = high + (middle >> 64);
    let words = [high >> 64, high & u128::from(u64::MAX), middle & u128::from(u64::MAX), low & u128::from(u64::MAX)];
    // The binary point is after the second digit of the second word, or further left if no digit was skipped.
    let left = 2 - exponent.min(2);
    let upper = (words[0] << 64) | words[1];
    let lower = (words[2] << 64) | words[3];
    let (upper, lower) =
        if left == 0 { (upper, lower) } else { (upper >> left, (lower >> left) | (upper << (128 - left))) };
    let upper = upper as u64;
    let quadrant = upper >> 62;
    // The fraction of a right angle, of 126 digits, as a signed number.
    let fraction = (((u128::from(upper) << 64) | (lower >> 64)) << 2) | ((lower >> 62) & 3);
    let is_over = fraction >> 127 == 1;
    let size = if is_over { fraction.wrapping_neg() } else { fraction };
    let zeros = size.leading_zeros();
    let digits = size << zeros;
    let scale = f64::from_bits(u64::from(1023 - zeros) << 52);
    let [high, low] =
        [(digits >> 75) as f64 * 2f64.powi(-53), ((digits >> 22) & ((1 << 53) - 1)) as f64 * 2f64.powi(-106)];
    // Times pi/2, in two parts.
    let product = high * PI_OVER_2[0];
    let rest = high.mul_add(PI_OVER_2[0], -product) + (high * PI_OVER_2[1] + low * PI_OVER_2[0]);
    let sum = product + rest;
    let sign = if is_over ^ x.is_sign_negative() { -scale } else { scale };
    let quadrant = quadrant + u64::from(is_over);
    let quadrant = if x.is_sign_negative() { quadrant.wrapping_neg() } else { quadrant };
    (quadrant, sum * sign, ((product - sum) + rest) * sign)
}
