//! Element types and the operations that combine elements.

use crate::instances::Instances;
use polyshard_program::ScalarType;
use std::fmt;

/// How two elements meet: the operation of a reduction or of an accumulating write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum; identity 0. Integers wrap.
    Sum,
    /// Product; identity 1. Integers wrap.
    Product,
    /// Maximum; identity minus infinity or the least integer.
    Max,
    /// Minimum; identity plus infinity or the greatest integer.
    Min,
}

/// A type that arrays hold: `f32`, `f64`, `i32` or `i64`.
///
/// Integer arithmetic wraps in every build, so that a program gives the same bits in debug and release.
pub trait Element:
    Instances
    + ScalarType
    + bytemuck::Pod
    + num_traits::NumCast
    + PartialOrd
    + fmt::Debug
    + fmt::Display
    + Send
    + Sync
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The least value; minus infinity for floats.
    const LEAST: Self;
    /// The greatest value; plus infinity for floats.
    const GREATEST: Self;

    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn subtract(self, other: Self) -> Self;
    /// `self * other`.
    fn multiply(self, other: Self) -> Self;
    /// `self / other`; integers truncate, and the least by -1 wraps to itself.
    ///
    /// # Panics
    /// If the type is an integer and `other` is 0.
    fn divide(self, other: Self) -> Self;
    /// `-self`.
    fn negate(self) -> Self;
    /// The greater; a NaN gives way to a number, and of equal values it is `self`.
    fn maximum(self, other: Self) -> Self;
    /// The smaller; a NaN gives way to a number, and of equal values it is `self`.
    fn minimum(self, other: Self) -> Self;
    /// The absolute value; the least integer wraps to itself.
    fn absolute(self) -> Self;

    /// e to the power of `self`.
    ///
    /// # Panics
    /// If the type is an integer: kernels that are checked call it on floats alone.
    fn exponential(self) -> Self {
        of_floats("exp", Self::DTYPE.name())
    }

    /// The natural logarithm of `self`; a NaN for negative numbers.
    ///
    /// # Panics
    /// If the type is an integer: kernels that are checked call it on floats alone.
    fn logarithm(self) -> Self {
        of_floats("log", Self::DTYPE.name())
    }

    /// The square root of `self`; a NaN for negative numbers.
    ///
    /// # Panics
    /// If the type is an integer: kernels that are checked call it on floats alone.
    fn square_root(self) -> Self {
        of_floats("sqrt", Self::DTYPE.name())
    }

    /// The hyperbolic tangent of `self`.
    ///
    /// # Panics
    /// If the type is an integer: kernels that are checked call it on floats alone.
    fn hyperbolic_tangent(self) -> Self {
        of_floats("tanh", Self::DTYPE.name())
    }
}

#[cold]
fn of_floats(function: &str, given: &str) -> ! {
    panic!("`{function}` is a function of floats and was called on {given}; this is a bug of polyshard")
}

#[cold]
fn division_by_0(given: &str) -> ! {
    panic!("division by 0 in a kernel of {given}; choose around it: `if b != 0 {{ a / b }} else {{ .. }}`")
}

macro_rules! float {
    ($type:ident) => {
        impl Element for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = $type::NEG_INFINITY;
            const GREATEST: Self = $type::INFINITY;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn divide(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn negate(self) -> Self {
                -self
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                // `max` may give either of 0 and -0, so two builds of one kernel might differ. Without a branch, rows are vectors.
                if (self >= other) | other.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                if (self <= other) | other.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn absolute(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn exponential(self) -> Self {
                self.exp()
            }
            #[inline(always)]
            fn logarithm(self) -> Self {
                self.ln()
            }
            #[inline(always)]
            fn square_root(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn hyperbolic_tangent(self) -> Self {
                self.tanh()
            }
        }
    };
}

macro_rules! integer {
    ($type:ident) => {
        impl Element for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = $type::MIN;
            const GREATEST: Self = $type::MAX;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn divide(self, other: Self) -> Self {
                if other == 0 {
                    division_by_0(Self::DTYPE.name());
                }
                self.wrapping_div(other)
            }
            #[inline(always)]
            fn negate(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn absolute(self) -> Self {
                self.wrapping_abs()
            }
        }
    };
}

float!(f32);
float!(f64);
integer!(i32);
integer!(i64);

impl ReduceOp {
    /// Returns the value that leaves any other unchanged.
    #[must_use]
    pub fn identity<T: Element>(self) -> T {
        match self {
            Self::Sum => T::ZERO,
            Self::Product => T::ONE,
            Self::Max => T::LEAST,
            Self::Min => T::GREATEST,
        }
    }

    /// Returns the two values combined.
    #[inline(always)]
    #[must_use]
    pub fn combine<T: Element>(self, left: T, right: T) -> T {
        match self {
            Self::Sum => left.add(right),
            Self::Product => left.multiply(right),
            Self::Max => left.maximum(right),
            Self::Min => left.minimum(right),
        }
    }
}
