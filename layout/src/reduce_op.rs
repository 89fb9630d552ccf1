//! The operations that combine elements.

use serde::{Deserialize, Serialize};

/// The operation that combines two elements, in a reduction or an accumulating write.
///
/// ```
/// use polyshard::prelude::*;
/// let greatest = polyshard::spmd(3, |world| {
///     let mut data = [world.rank() as f64, 1.0];
///     world.all_reduce(&mut data, ReduceOp::Max)?;
///     Ok(data)
/// })?;
/// assert_eq!(greatest, [[2.0, 1.0]; 3]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReduceOp {
    /// Sum; identity 0. Integers wrap.
    Sum,
    /// Product; identity 1. Integers wrap.
    Product,
    /// Maximum; identity minus infinity or the least integer. A NaN is greater than any number.
    Max,
    /// Minimum; identity plus infinity or the greatest integer. A NaN is smaller than any number.
    Min,
}

impl ReduceOp {
    /// Returns the result of combining no terms, from which an output starts; combined with another value it leaves that unchanged, except
    /// that a sum of -0.0 and 0.0 is 0.0.
    #[must_use]
    pub fn identity<T: Combine>(self) -> T {
        T::IDENTITIES[self as usize]
    }

    /// Returns the two values combined.
    #[inline(always)]
    #[must_use]
    pub fn combine<T: Combine>(self, left: T, right: T) -> T {
        left.combined(self, right)
    }
}

/// A type whose values a [`ReduceOp`] combines: `f32`, `f64`, `i32` or `i64`.
///
/// The maximum and the minimum are the same in any order of any number of values: of two NaNs, they have the bits that are set in either,
/// and 0 is greater than -0.
pub trait Combine: Copy + 'static {
    /// The results of combining no terms: of sums, products, maxima and minima.
    const IDENTITIES: [Self; 4];

    /// Returns the two values combined.
    #[must_use]
    fn combined(self, op: ReduceOp, other: Self) -> Self;

    /// Returns two values combined neither of which is a NaN, in fewer instructions.
    #[must_use]
    #[inline(always)]
    fn combined_numbers(self, op: ReduceOp, other: Self) -> Self {
        self.combined(op, other)
    }
}

macro_rules! floats {
    ($($type:ident)*) => { $(
        impl Combine for $type {
            const IDENTITIES: [Self; 4] = [0.0, 1.0, $type::NEG_INFINITY, $type::INFINITY];

            #[inline(always)]
            fn combined(self, op: ReduceOp, other: Self) -> Self {
                if matches!(op, ReduceOp::Max | ReduceOp::Min) && self.is_nan() | other.is_nan() {
                    // The one that is a NaN, or the bits that are set in either; without a branch, so that rows are vectorised.
                    let nan = |value: Self| if value.is_nan() { value.to_bits() } else { 0 };
                    Self::from_bits(nan(self) | nan(other))
                } else {
                    self.combined_numbers(op, other)
                }
            }

            #[inline(always)]
            fn combined_numbers(self, op: ReduceOp, other: Self) -> Self {
                match op {
                    ReduceOp::Sum => self + other,
                    ReduceOp::Product => self * other,
                    // Equal values can differ only in the sign of 0, which is set if both are negative.
                    ReduceOp::Max => {
                        let (first, second) =
                            (if self > other { self } else { other }, if other > self { other } else { self });
                        Self::from_bits(first.to_bits() & second.to_bits())
                    }
                    ReduceOp::Min => {
                        let (first, second) =
                            (if self < other { self } else { other }, if other < self { other } else { self });
                        Self::from_bits(first.to_bits() | second.to_bits())
                    }
                }
            }
        }
    )* };
}

macro_rules! integers {
    ($($type:ident)*) => { $(
        impl Combine for $type {
            const IDENTITIES: [Self; 4] = [0, 1, $type::MIN, $type::MAX];

            #[inline(always)]
            fn combined(self, op: ReduceOp, other: Self) -> Self {
                match op {
                    ReduceOp::Sum => self.wrapping_add(other),
                    ReduceOp::Product => self.wrapping_mul(other),
                    ReduceOp::Max => self.max(other),
                    ReduceOp::Min => self.min(other),
                }
            }
        }
    )* };
}

floats!(f32 f64);
integers!(i32 i64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Including signalling NaNs, and NaNs that differ in sign.
    #[test]
    fn maxima_and_minima_are_the_same_in_any_order() {
        let odd =
            [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::MIN_POSITIVE / 8.0];
        let odd = odd.into_iter().chain([f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(0xfff4_0000_0000_0002)]);
        let odd: Vec<f64> = odd.collect();
        for op in [ReduceOp::Max, ReduceOp::Min] {
            for &a in &odd {
                let identity: f64 = op.identity();
                assert_eq!(op.combine(a, identity).to_bits(), a.to_bits(), "{a} {op:?} {identity}");
                for &b in &odd {
                    let both = op.combine(a, b);
                    assert_eq!(both.to_bits(), op.combine(b, a).to_bits(), "{a} {op:?} {b}");
                    assert_eq!(both.is_nan(), a.is_nan() || b.is_nan(), "{a} {op:?} {b}");
                    for &c in &odd {
                        let other = op.combine(a, op.combine(b, c));
                        assert_eq!(op.combine(both, c).to_bits(), other.to_bits(), "{a} {op:?} {b} {op:?} {c}");
                    }
                }
            }
        }
    }
}
