//! Numbers to reduce, and error bounds between two orders of reduction.

use polyshard_runtime::{Element, ReduceOp};

/// An element type that can be made of random bits and compared.
pub trait Value: Element {
    /// The unit roundoff; 0 for integers.
    const ROUNDOFF: f64;

    /// Returns a number: any integer, or a float of either sign between 1/2 and 3/2, so that products of some dozens
    /// neither overflow nor underflow.
    fn from_bits(bits: u64) -> Self;

    /// Returns the number as an `f64`.
    fn wide(self) -> f64;

    /// Whether two numbers have the same bits.
    fn same(self, other: Self) -> bool;
}

/// Element `i` of a rank, different for every rank and index.
pub fn element<T: Value>(op: ReduceOp, rank: usize, i: usize) -> T {
    let number = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min].into_iter().position(|one| one == op);
    T::from_bits(mix(mix(number.unwrap_or(4) as u64 ^ rank as u64) ^ i as u64))
}

/// The terms combined from the first to the last.
pub fn folded<T: Value>(op: ReduceOp, terms: &[T]) -> T {
    let combined = terms.iter().copied().reduce(|left, right| op.combine(left, right));
    combined.expect("a group has a rank")
}

/// Whether two results can both be these terms combined, in two orders.
///
/// The bound is the one that `Reduction` states: n - 1 roundings in each, N. Higham, "Accuracy and Stability of
/// Numerical Algorithms", section 3.1. For integers, maxima and minima results must be equal.
pub fn agree<T: Value>(op: ReduceOp, terms: &[T], one: T, other: T) -> bool {
    if one.same(other) {
        return true;
    }
    let roundings = (terms.len() - 1) as f64 * T::ROUNDOFF;
    let bound = 2.0 * roundings / (1.0 - roundings);
    let size: f64 = match op {
        ReduceOp::Sum => terms.iter().map(|term| term.wide().abs()).sum(),
        ReduceOp::Product => terms.iter().map(|term| term.wide().abs()).product(),
        ReduceOp::Max | ReduceOp::Min => 0.0,
        ReduceOp::Records(_) => f64::INFINITY,
    };
    (one.wide() - other.wide()).abs() <= bound * size
}

/// The output function of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014.
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

macro_rules! floats {
    ($($type:ident)*) => {$(
        impl Value for $type {
            const ROUNDOFF: f64 = $type::EPSILON as f64 / 2.0;

            fn from_bits(bits: u64) -> Self {
                let number = (bits >> 11) as $type / (1u64 << 53) as $type + 0.5;
                if bits & 1 == 0 { number } else { -number }
            }

            fn wide(self) -> f64 {
                f64::from(self)
            }

            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
        }
    )*};
}
floats!(f32 f64);

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Value for $type {
            const ROUNDOFF: f64 = 0.0;

            fn from_bits(bits: u64) -> Self {
                bits as $type
            }

            fn wide(self) -> f64 {
                self as f64
            }

            fn same(self, other: Self) -> bool {
                self == other
            }
        }
    )*};
}
integers!(i32 i64);
