//! Element types and the operations that combine elements.

use crate::instances::Instances;
use crate::math;
use crate::mix::mix;
use polyshard_program::{Assign, Function, Number, ScalarType};
use std::fmt;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Runs an expression with a name for the type of a native [`DType`](crate::DType).
macro_rules! with_native {
    (@match $dtype:expr, $name:ident, $run:expr, $($kind:ident $type:ident)*) => {
        match $dtype {
            $(crate::DType::$kind => {
                type $name = $type;
                $run
            })*
            dtype => unreachable!("programs do not compute in {dtype}; this is a bug in polyshard"),
        }
    };
    ($dtype:expr, $name:ident => $run:expr) => {
        crate::element::with_native!(@match $dtype, $name, $run, F32 f32 F64 f64 I32 i32 I64 i64)
    };
}
pub(crate) use with_native;

/// Declares functions that integers do not have, with the names that kernels use.
macro_rules! functions_of_floats {
    ($($(#[$doc:meta])* fn $name:ident($self:ident $(, $other:ident)?) = $function:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Panics
        /// If the type is an integer: checked kernels call it on floats only.
        fn $name($self $(, $other: Self)?) -> Self {
            of_floats($function, Self::DTYPE.name())
        }
    )* };
}

/// Defines functions from elements to an element, each by an expression.
macro_rules! inlined {
    ($(fn $name:ident($self:ident $(, $other:ident)?) = $value:expr;)*) => { $(
        #[inline(always)]
        fn $name($self $(, $other: Self)?) -> Self {
            $value
        }
    )* };
}

/// A type that arrays hold: `f32`, `f64`, `i32` or `i64`.
///
/// Integer arithmetic wraps in every build, so that a program gives the same bits in debug and release.
///
/// Functions of floats are at most 1 ulp (unit in the last place) from the exact value and have the same bits on every
/// processor and for any number of values at once: they are computed here, not by the C library. Square roots and
/// [`floored`](Self::floored) values are exact. Which NaN they return is not defined.
///
/// ```
/// use polyshard::prelude::*;
/// fn dot<T: Element>(a: &[T], b: &[T]) -> T {
///     a.iter().zip(b).fold(T::ZERO, |sum, (&a, &b)| sum.add(a.multiply(b)))
/// }
/// assert_eq!(dot(&[1.0f32, 2.0], &[3.0, 4.0]), 11.0);
/// assert_eq!(dot(&[i32::MAX], &[2]), -2); // wraps
/// ```
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
    /// The greater, where a NaN is greater than any number and 0 is greater than -0.
    ///
    /// The result is the same in any order of any number of values: of two NaNs, it has the bits that are set in either.
    /// [`LEAST`](Self::LEAST) changes no bit of the other value.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert!(f64::NAN.maximum(1.0).is_nan() && 1f32.maximum(f32::NAN).is_nan());
    /// assert_eq!((-0f64).maximum(0.0).to_bits(), 0f64.to_bits());
    /// assert_eq!(3.maximum(5), 5);
    /// ```
    fn maximum(self, other: Self) -> Self;
    /// The smaller, where a NaN is smaller than any number and -0 is smaller than 0; otherwise as
    /// [`maximum`](Self::maximum), with [`GREATEST`](Self::GREATEST) for [`LEAST`](Self::LEAST).
    fn minimum(self, other: Self) -> Self;
    /// The [`maximum`](Self::maximum) of two values neither of which is a NaN, in fewer instructions.
    fn greater(self, other: Self) -> Self;
    /// The [`minimum`](Self::minimum) of two values neither of which is a NaN, in fewer instructions.
    fn smaller(self, other: Self) -> Self;
    /// The absolute value; the least integer wraps to itself.
    fn absolute(self) -> Self;
    /// 1 if `self` is positive and -1 if it is negative; else `self`, which is 0, -0 or a NaN.
    fn sign(self) -> Self {
        if self > Self::ZERO {
            Self::ONE
        } else if self < Self::ZERO {
            Self::ONE.negate()
        } else {
            self
        }
    }

    functions_of_floats! {
        /// e to the power of `self`.
        fn exponential(self) = "exp";
        /// The natural logarithm of `self`; a NaN for negative numbers.
        fn logarithm(self) = "log";
        /// The square root of `self`; a NaN for negative numbers.
        fn square_root(self) = "sqrt";
        /// The hyperbolic tangent of `self`.
        fn hyperbolic_tangent(self) = "tanh";
        /// The sine of `self`, an angle in radians of any size.
        ///
        /// ```
        /// use polyshard::prelude::*;
        /// assert_eq!((0.5f64.sine(), 1e22.sine()), (0.479425538604203, -0.8522008497671888));
        /// ```
        fn sine(self) = "sin";
        /// The cosine of `self`, an angle in radians of any size.
        fn cosine(self) = "cos";
        /// The greatest whole number that is not greater than `self`.
        fn floored(self) = "floor";
        /// `self` to the power of `exponent`; a NaN for a negative number to the power of one that is not whole.
        fn power(self, _exponent) = "pow";
    }

    /// The distance of two numbers; that of two NaNs is 0, and that of a NaN and a number is infinite.
    fn distance(self, other: Self) -> f64;

    /// A number computed from a seed and an index, in [-1, 1) for floats and in -9..=9 for integers: the same on every rank, in any order
    /// of calls.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let rows = Sharding::new(&mesh, &[5, 2], &[Placement::block(0, "x")]).expect("a sharding");
    /// spmd(2, |world| {
    ///     let a = DistArray::from_fn(world, &rows, |index| f32::random(1, index))?;
    ///     assert!(a.get(&[4, 1]).is_none_or(|element| element == f32::random(1, &[4, 1])));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    fn random(seed: u64, index: &[usize]) -> Self {
        // 24 bits are exact in both types of floats, so their arrays hold the same numbers.
        let bits = index.iter().fold(mix(seed), |bits, &i| mix(bits ^ i as u64)) >> 40;
        let number = if Self::DTYPE.is_float() { bits as f64 / 2f64.powi(23) - 1.0 } else { (bits % 19) as f64 - 9.0 };
        <Self as num_traits::NumCast>::from(number).expect("every type has it")
    }

    /// The function of `self`.
    ///
    /// # Panics
    /// If the type is an integer and the function one of floats.
    #[inline(always)]
    fn call(self, function: Function) -> Self {
        match function {
            Function::Exp => self.exponential(),
            Function::Log => self.logarithm(),
            Function::Sqrt => self.square_root(),
            Function::Tanh => self.hyperbolic_tangent(),
            Function::Sin => self.sine(),
            Function::Cos => self.cosine(),
            Function::Floor => self.floored(),
            Function::Abs => self.absolute(),
            Function::Sign => self.sign(),
        }
    }
}

/// The element for a number of a kernel.
pub(crate) fn of_number<T: Element>(number: Number) -> T {
    let cast = match number {
        Number::Int(value) => T::from(value),
        Number::Float(value) => T::from(value),
    };
    cast.unwrap_or_else(|| {
        panic!("the kernel's number {number} is not of type {}; this is a bug in polyshard", T::DTYPE.name())
    })
}

#[cold]
fn of_floats(function: &str, given: &str) -> ! {
    panic!("`{function}` is a function of floats and was called on {given}; this is a bug in polyshard")
}

#[cold]
fn division_by_0(given: &str) -> ! {
    panic!("division by 0 in a kernel of {given}; choose around it: `if b != 0 {{ a / b }} else {{ .. }}`")
}

/// The one of two floats that is a NaN, or the bits that are set in either if both are; without a branch, so that rows are vectorised.
macro_rules! either_nan {
    ($left:expr, $right:expr) => {{
        let nan = |value: Self| if value.is_nan() { value.to_bits() } else { 0 };
        Self::from_bits(nan($left) | nan($right))
    }};
}

macro_rules! float {
    ($type:ident $functions:ident) => {
        impl Element for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = $type::NEG_INFINITY;
            const GREATEST: Self = $type::INFINITY;
            inlined! {
                fn add(self, other) = self + other;
                fn subtract(self, other) = self - other;
                fn multiply(self, other) = self * other;
                fn divide(self, other) = self / other;
                fn negate(self) = -self;
                fn maximum(self, other) =
                    if self.is_nan() | other.is_nan() { either_nan!(self, other) } else { self.greater(other) };
                fn minimum(self, other) =
                    if self.is_nan() | other.is_nan() { either_nan!(self, other) } else { self.smaller(other) };
                fn absolute(self) = self.abs();
                fn exponential(self) = math::$functions::exp(self);
                fn logarithm(self) = math::$functions::log(self);
                fn square_root(self) = self.sqrt();
                fn hyperbolic_tangent(self) = math::$functions::tanh(self);
                fn sine(self) = math::$functions::sin(self);
                fn cosine(self) = math::$functions::cos(self);
                fn floored(self) = self.floor();
            }
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                // Equal values can differ only in the sign of 0, which is set if both are negative.
                let (first, second) =
                    (if self > other { self } else { other }, if other > self { other } else { self });
                Self::from_bits(first.to_bits() & second.to_bits())
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                let (first, second) =
                    (if self < other { self } else { other }, if other < self { other } else { self });
                Self::from_bits(first.to_bits() | second.to_bits())
            }
            fn power(self, exponent: Self) -> Self {
                math::$functions::pow(self, exponent)
            }
            fn distance(self, other: Self) -> f64 {
                if self == other || self.is_nan() && other.is_nan() {
                    return 0.0;
                }
                let distance = (f64::from(self) - f64::from(other)).abs();
                if distance.is_nan() { f64::INFINITY } else { distance }
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
            inlined! {
                fn add(self, other) = self.wrapping_add(other);
                fn subtract(self, other) = self.wrapping_sub(other);
                fn multiply(self, other) = self.wrapping_mul(other);
                fn negate(self) = self.wrapping_neg();
                fn maximum(self, other) = self.max(other);
                fn minimum(self, other) = self.min(other);
                fn greater(self, other) = self.max(other);
                fn smaller(self, other) = self.min(other);
                fn absolute(self) = self.wrapping_abs();
            }
            #[inline(always)]
            fn divide(self, other: Self) -> Self {
                if other == 0 {
                    division_by_0(Self::DTYPE.name());
                }
                self.wrapping_div(other)
            }
            fn distance(self, other: Self) -> f64 {
                self.abs_diff(other) as f64
            }
        }
    };
}

float!(f32 single);
float!(f64 double);
integer!(i32);
integer!(i64);

impl ReduceOp {
    /// The operation of a statement's assignment.
    pub(crate) fn of(assign: Assign) -> Self {
        match assign {
            Assign::Set | Assign::Add => Self::Sum,
            Assign::Mul => Self::Product,
            Assign::Max => Self::Max,
            Assign::Min => Self::Min,
        }
    }

    /// Returns the result of combining no terms, from which an output starts; combined with another value it leaves that unchanged, except
    /// that a sum of -0.0 and 0.0 is 0.0.
    #[must_use]
    pub fn identity<T: Element>(self) -> T {
        match self {
            Self::Sum => T::ZERO,
            Self::Product => T::ONE,
            Self::Max => T::LEAST,
            Self::Min => T::GREATEST,
        }
    }

    /// The value that leaves every bit of any other unchanged, from which parts of a result start: -0.0 for sums.
    pub(crate) fn neutral<T: Element>(self) -> T {
        match self {
            Self::Sum => T::ZERO.negate(),
            _ => self.identity(),
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
        assert_eq!(Element::maximum(0.0_f64, -0.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(Element::minimum(0.0_f64, -0.0).to_bits(), (-0.0_f64).to_bits());
        assert_eq!((Element::maximum(3f32, 5.0), Element::minimum(-1f32, 2.0)), (5.0, -1.0));
    }

    #[test]
    fn what_is_neutral_changes_no_bit() {
        for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
            for value in [0.0, -0.0, 2.5, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
                assert_eq!(op.combine(value, op.neutral()).to_bits(), value.to_bits(), "{op:?}");
                assert_eq!(op.combine(op.neutral(), value).to_bits(), value.to_bits(), "{op:?}");
            }
        }
    }
}
