//! Elements made from a seed: the same ones whichever rank asks for them, and in whatever order.

use polyshard::Element;

/// An element type that can be made up and compared.
pub(crate) trait Number: Element {
    /// Returns a number made of random bits: in [-1, 1) for floats, in -9..=9 for integers.
    fn from_random(bits: u64) -> Self;

    /// Returns how far two numbers are apart; two NaNs are not, and one NaN is infinitely far.
    fn distance(self, other: Self) -> f64;
}

/// Returns the element at `index` of the array with this seed.
pub(crate) fn element<T: Number>(seed: u64, index: &[usize]) -> T {
    T::from_random(index.iter().fold(mix(seed), |bits, &i| mix(bits ^ i as u64)))
}

/// The output function of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014.
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

macro_rules! floats {
    ($($type:ident)*) => {$(
        impl Number for $type {
            fn from_random(bits: u64) -> Self {
                // 24 bits are exact in both types, so an f64 array holds the same numbers as an f32 one.
                (bits >> 40) as $type / (1u32 << 23) as $type - 1.0
            }

            fn distance(self, other: Self) -> f64 {
                if self == other || self.is_nan() && other.is_nan() {
                    return 0.0;
                }
                let distance = (f64::from(self) - f64::from(other)).abs();
                if distance.is_nan() { f64::INFINITY } else { distance }
            }
        }
    )*};
}
floats!(f32 f64);

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Number for $type {
            fn from_random(bits: u64) -> Self {
                ((bits >> 40) % 19) as $type - 9
            }

            fn distance(self, other: Self) -> f64 {
                self.abs_diff(other) as f64
            }
        }
    )*};
}
integers!(i32 i64);
