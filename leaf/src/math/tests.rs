//! Functions compared with correctly rounded ones.

use super::{double, single};

/// The number of floats between two, where all NaNs count as one; zeros differ in sign.
macro_rules! distance {
    ($a:expr, $b:expr, $integer:ident) => {{
        let key = |bits: $integer| if bits < 0 { $integer::MIN.wrapping_sub(bits).wrapping_sub(1) } else { bits };
        match ($a.is_nan(), $b.is_nan()) {
            (true, true) => 0,
            (false, false) => key($a.to_bits() as $integer).abs_diff(key($b.to_bits() as $integer)).into(),
            _ => u64::MAX,
        }
    }};
}

/// Endless numbers that look random.
fn random() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// Arguments that need care: zeros, subnormals, infinities, NaN, the ends of ranges, and angles that are nearly right.
const ODD: [f64; 27] = [
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    5e-324,
    -5e-324,
    1e-310,
    f64::MIN_POSITIVE,
    1e-40,
    1.0,
    -1.0,
    709.782712893384,
    709.79,
    -745.13,
    -745.14,
    -708.4,
    88.722839,
    -103.97,
    f64::MAX,
    f64::MIN,
    f64::MAX / 16.0,
    1e8,
    100000001.0,
    1e22,
    // Its distance from a multiple of pi/2 is the smallest of all floats (2^-61).
    5.319372648326541e255,
    std::f64::consts::FRAC_PI_2,
];

/// Arguments of every size, and many of those that are common.
fn arguments() -> impl Iterator<Item = f64> {
    let dense = random().take(100_000).flat_map(|bits| {
        let unit = (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let right = (bits % 100_000_000) as f64 * std::f64::consts::FRAC_PI_2;
        [f64::from_bits(bits), 800.0 * unit, 25.0 * unit, 2.0 * unit, 1e8 * unit, 1.0 + 1e-3 * unit, right]
    });
    ODD.into_iter().chain(dense)
}

/// A function's name, ours, and one whose results are correctly rounded.
type Pair<T> = (&'static str, fn(T) -> T, fn(T) -> T);

#[test]
fn functions_of_f64_are_at_most_1_ulp_off() {
    let functions: [Pair<f64>; 5] = [
        ("exp", double::exp, core_math::exp),
        ("log", double::log, core_math::log),
        ("tanh", double::tanh, core_math::tanh),
        ("sin", double::sin, core_math::sin),
        ("cos", double::cos, core_math::cos),
    ];
    for (name, function, exact) in functions {
        for x in arguments() {
            let (found, expected) = (function(x), exact(x));
            let distance: u64 = distance!(found, expected, i64);
            assert!(distance <= 1, "{name}({x:e}) is {expected:e}, found {found:e}");
        }
    }
}

#[test]
fn functions_of_f32_are_at_most_1_ulp_off() {
    let functions: [Pair<f32>; 5] = [
        ("exp", single::exp, core_math::expf),
        ("log", single::log, core_math::logf),
        ("tanh", single::tanh, core_math::tanhf),
        ("sin", single::sin, core_math::sinf),
        ("cos", single::cos, core_math::cosf),
    ];
    for (name, function, exact) in functions {
        let dense = (0..=u32::MAX).step_by(8191).map(f32::from_bits);
        for x in dense.chain(ODD.map(|x| x as f32)) {
            let (found, expected) = (function(x), exact(x));
            let distance: u64 = distance!(found, expected, i32);
            assert!(distance <= 1, "{name}({x:e}) is {expected:e}, found {found:e}");
        }
    }
}

#[test]
fn powers_are_at_most_1_ulp_off() {
    let mut bits = random();
    let mut next = || bits.next().expect("there is no end");
    for _ in 0..100_000 {
        // Not a signalling NaN, whose power of 0 C does not define.
        let (x, y) = (f64::from_bits(next() >> 1).max(0.0), (next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0);
        for (x, y) in
            [(x, y), (1.0 + y / 3.0, 900.0 * y), (x, f64::from_bits(next()).max(f64::MIN)), (-x, (20.0 * y).round())]
        {
            let (found, expected) = (double::pow(x, y), core_math::pow(x, y));
            let distance: u64 = distance!(found, expected, i64);
            assert!(distance <= 1, "pow({x:e}, {y:e}) is {expected:e}, found {found:e}");
            let (x, y) = (x as f32, y as f32);
            let (found, expected) = (single::pow(x, y), core_math::powf(x, y));
            let distance: u64 = distance!(found, expected, i32);
            assert!(distance <= 1, "pow({x:e}, {y:e}) is {expected:e}, found {found:e}");
        }
    }
}
