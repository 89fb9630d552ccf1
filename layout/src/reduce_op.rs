//! The operations that combine elements.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};

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
    /// A running reduction of records of several fields; identity 0, as a record that begins with 0 stands for no terms. Records are not
    /// combined element by element.
    #[serde(skip)]
    Records(Records),
}

/// How records of floats, which are stored one after the other, are combined.
#[derive(Clone, Copy)]
pub struct Records(&'static dyn Record);

/// The combination of two records.
pub trait Record: Sync {
    /// The elements of a record.
    fn size(&self) -> usize;

    /// Combines records, one after the other, into a single one, whose terms precede theirs.
    fn fold_f32(&self, into: &mut [f32], terms: &[f32]);

    /// As [`fold_f32`](Self::fold_f32).
    fn fold_f64(&self, into: &mut [f64], terms: &[f64]);
}

impl Records {
    /// Returns the operation that combines records in this way. Operations are equal if they are the same value, so each is made once.
    #[must_use]
    pub fn new(record: &'static dyn Record) -> Self {
        Self(record)
    }

    /// Returns the number of elements of a record.
    #[must_use]
    pub fn size(self) -> usize {
        self.0.size()
    }

    /// Combines records, one after the other, into a single one.
    ///
    /// # Panics
    /// If the slices are not whole records, or hold integers.
    pub fn fold<T: Combine>(self, into: &mut [T], terms: &[T]) {
        assert!(
            into.len() == self.size() && terms.len().is_multiple_of(self.size()),
            "records of {} elements meet in slices of {} and {}; this is a bug in polyshard",
            self.size(),
            into.len(),
            terms.len()
        );
        T::fold_records(self.0, into, terms);
    }

    /// Combines records, one after the other.
    ///
    /// # Panics
    /// If the slices are not whole records of the same number, or hold integers.
    pub fn combine<T: Combine>(self, into: &mut [T], with: &[T]) {
        assert!(
            into.len() == with.len() && into.len().is_multiple_of(self.size()),
            "records of {} elements meet in slices of {} and {}; this is a bug in polyshard",
            self.size(),
            into.len(),
            with.len()
        );
        let each = into.chunks_exact_mut(self.size()).zip(with.chunks_exact(self.size()));
        each.for_each(|(into, with)| T::fold_records(self.0, into, with));
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0, other.0)
    }
}

impl Eq for Records {}

impl Hash for Records {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).cast::<()>().hash(state);
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements", self.size())
    }
}

impl ReduceOp {
    /// Returns the result of combining no terms, from which an output starts; combined with another value it leaves that unchanged, except
    /// that a sum of -0.0 and 0.0 is 0.0.
    #[must_use]
    pub fn identity<T: Combine>(self) -> T {
        match self {
            Self::Sum | Self::Records(_) => T::IDENTITIES[0],
            Self::Product => T::IDENTITIES[1],
            Self::Max => T::IDENTITIES[2],
            Self::Min => T::IDENTITIES[3],
        }
    }

    /// Returns the two values combined.
    ///
    /// # Panics
    /// If they are elements of records.
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

    /// Combines records into one.
    #[doc(hidden)]
    fn fold_records(record: &dyn Record, into: &mut [Self], terms: &[Self]);

    /// Returns two values combined neither of which is a NaN, in fewer instructions.
    #[must_use]
    #[inline(always)]
    fn combined_numbers(self, op: ReduceOp, other: Self) -> Self {
        self.combined(op, other)
    }
}

/// The message on elements that are combined one by one.
const ALONE: &str = "an element of a record is combined alone; this is a bug in polyshard";

macro_rules! floats {
    ($($type:ident $fold:ident)*) => { $(
        impl Combine for $type {
            const IDENTITIES: [Self; 4] = [0.0, 1.0, $type::NEG_INFINITY, $type::INFINITY];

            fn fold_records(record: &dyn Record, into: &mut [Self], terms: &[Self]) {
                record.$fold(into, terms);
            }

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
                    ReduceOp::Records(_) => unreachable!("{ALONE}"),
                }
            }
        }
    )* };
}

macro_rules! integers {
    ($($type:ident)*) => { $(
        impl Combine for $type {
            const IDENTITIES: [Self; 4] = [0, 1, $type::MIN, $type::MAX];

            fn fold_records(_: &dyn Record, _: &mut [Self], _: &[Self]) {
                unreachable!("records hold floats; this is a bug in polyshard")
            }

            #[inline(always)]
            fn combined(self, op: ReduceOp, other: Self) -> Self {
                match op {
                    ReduceOp::Sum => self.wrapping_add(other),
                    ReduceOp::Product => self.wrapping_mul(other),
                    ReduceOp::Max => self.max(other),
                    ReduceOp::Min => self.min(other),
                    ReduceOp::Records(_) => unreachable!("{ALONE}"),
                }
            }
        }
    )* };
}

floats!(f32 fold_f32 f64 fold_f64);
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
