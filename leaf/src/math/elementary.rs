//! The functions of one float type, with the tables and constants of its module.

/// Defines the functions of a type, which has `$digits` binary digits and `$bias` added to its exponents.
macro_rules! elementary {
    ($float:ident, $bits:ident, $digits:literal, $bias:literal) => {
        /// Added to a float and subtracted again, it rounds the float to an integer, which is in the lower bits in
        /// between.
        pub(super) const ROUND: $float = 1.5 * ((1 as $bits) << ($digits - 1)) as $float;

        /// The bits of a fraction.
        const FRACTION: $bits = (1 << ($digits - 1)) - 1;

        /// The polynomial at `x`, with the constant coefficient first.
        #[inline(always)]
        pub(super) fn polynomial<const N: usize>(coefficients: &[$float; N], x: $float) -> $float {
            let mut sum = coefficients[N - 1];
            for i in (0..N - 1).rev() {
                sum = sum.mul_add(x, coefficients[i]);
            }
            sum
        }

        /// `2^k`, for `k` with which it is neither subnormal nor infinite.
        #[inline(always)]
        fn power_of_two(k: $float) -> $float {
            $float::from_bits((k + (ROUND + $bias as $float)).to_bits() << ($digits - 1))
        }

        /// Returns `k` and `h` with `x = k ln(2) + h`, except for the product of `k` and [`LN_2_REST`].
        #[inline(always)]
        fn reduced(x: $float) -> ($float, $float) {
            let k = x.mul_add(LOG2_E, ROUND) - ROUND;
            // Exact: both are multiples of a power of two, and their difference is a small multiple.
            (k, k.mul_add(-LN_2, x))
        }

        #[inline(always)]
        pub(crate) fn exp(x: $float) -> $float {
            // Beyond, it is infinite or 0; a NaN is unchanged.
            let x = if x > OVERFLOW { OVERFLOW } else { x };
            let x = if x < UNDERFLOW { UNDERFLOW } else { x };
            let (k, high) = reduced(x);
            let r = k.mul_add(-LN_2_REST, high);
            let value = polynomial(&EXP, r).mul_add(r, 1.0).mul_add(r, 1.0);
            // `2^k` itself may not be representable.
            let half = (k * 0.5 + ROUND) - ROUND;
            value * power_of_two(half) * power_of_two(k - half)
        }

        #[inline(always)]
        pub(crate) fn log(x: $float) -> $float {
            const ROOT: $bits = (std::f64::consts::FRAC_1_SQRT_2 as $float).to_bits();
            const INTEGER: $float = ((1 as $bits) << ($digits - 1)) as $float;
            const SCALE: $float = 2.0 * INTEGER;
            let is_small = x < $float::MIN_POSITIVE;
            let normal = if is_small { x * SCALE } else { x };
            // x = 2^k (1 + f), where 1 + f is between the square roots of 1/2 and 2.
            let bits = normal.to_bits().wrapping_add((1.0 as $float).to_bits() - ROOT);
            let k = $float::from_bits((bits >> ($digits - 1)) | INTEGER.to_bits()) - (INTEGER + $bias as $float);
            let k = if is_small { k - $digits as $float } else { k };
            let f = $float::from_bits((bits & FRACTION).wrapping_add(ROOT)) - 1.0;
            let s = f / (2.0 + f);
            let z = s * s;
            let half = 0.5 * f * f;
            let rest = s.mul_add(z.mul_add(polynomial(&LOG, z), half), k * LN_2_REST);
            let value = k.mul_add(LN_2, f - (half - rest));
            let value = if x < $float::INFINITY { value } else { x };
            let value = if x == 0.0 { $float::NEG_INFINITY } else { value };
            if x < 0.0 { $float::NAN } else { value }
        }

        #[inline(always)]
        pub(crate) fn tanh(x: $float) -> $float {
            let a = x.abs();
            // For larger arguments, it rounds to 1.
            let a = if a > 20.0 { 20.0 } else { a };
            let (k, high) = reduced(2.0 * a);
            // Exact if `k` is 0; otherwise the error is less than half a unit of the result.
            let r = k.mul_add(-LN_2_REST, high);
            let (sum, square) = (polynomial(&EXP, r), r * r);
            let p = sum.mul_add(square, r);
            let scale = power_of_two(k);
            // exp(2a) - 1 = n + n_low, from exp(r) - 1 = p.
            let below = scale - 1.0;
            let n = scale.mul_add(p, below);
            let n_low = scale.mul_add(p, below - n);
            // The error of p itself matters in the type with more digits.
            let n_low = if $digits > 24 { scale.mul_add(sum.mul_add(square, r - p), n_low) } else { n_low };
            // exp(2a) + 1 = d + d_low
            let d = n + 2.0;
            let d_low = (2.0 - d) + n;
            let d_low = if $digits > 24 { d_low + n_low } else { d_low };
            let inverse = 1.0 / d;
            let q = n * inverse;
            // The remainder of n + n_low less q (d + d_low); the first product is exact.
            let rest = q.mul_add(-d_low, q.mul_add(-d, n) + n_low);
            rest.mul_add(inverse, q).copysign(x)
        }

        /// The largest argument of a sine or cosine that is reduced without long integers.
        pub(crate) const NEAR: $float = 1e8;

        #[inline(always)]
        pub(crate) fn sin_near(x: $float) -> $float {
            let value = sine_near(x, 0);
            if x == 0.0 { x } else { value }
        }

        #[inline(always)]
        pub(crate) fn cos_near(x: $float) -> $float {
            sine_near(x, 1)
        }

        #[inline(always)]
        pub(crate) fn sin(x: $float) -> $float {
            if x.abs() > NEAR { sine_far(x.into(), 0) as $float } else { sin_near(x) }
        }

        #[inline(always)]
        pub(crate) fn cos(x: $float) -> $float {
            if x.abs() > NEAR { sine_far(x.into(), 1) as $float } else { cos_near(x) }
        }
    };
}
