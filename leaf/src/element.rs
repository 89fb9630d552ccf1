//! Element types.

use crate::ReduceOp;
use crate::instances::Instances;
use crate::math;
use polyshard_layout::{Combine, mix};
use polyshard_program::{Function, Number, ScalarType};
use std::fmt;

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
    ($($(#[$doc:meta])* fn $name:ident($self:ident $(, $other:ident)?) = $value:expr;)*) => { $(
        $(#[$doc])*
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
    Combine
    + Instances
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

    inlined! {
        /// `self + other`.
        fn add(self, other) = self.combined(ReduceOp::Sum, other);
        /// `self * other`.
        fn multiply(self, other) = self.combined(ReduceOp::Product, other);
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
        fn maximum(self, other) = self.combined(ReduceOp::Max, other);
        /// The smaller, where a NaN is smaller than any number and -0 is smaller than 0; otherwise as
        /// [`maximum`](Self::maximum), with [`GREATEST`](Self::GREATEST) for [`LEAST`](Self::LEAST).
        fn minimum(self, other) = self.combined(ReduceOp::Min, other);
        /// The [`maximum`](Self::maximum) of two values neither of which is a NaN, in fewer instructions.
        fn greater(self, other) = self.combined_numbers(ReduceOp::Max, other);
        /// The [`minimum`](Self::minimum) of two values neither of which is a NaN, in fewer instructions.
        fn smaller(self, other) = self.combined_numbers(ReduceOp::Min, other);
    }
    /// `self - other`.
    fn subtract(self, other: Self) -> Self;
    /// `self / other`; integers truncate, and the least by -1 wraps to itself.
    ///
    /// # Panics
    /// If the type is an integer and `other` is 0.
    fn divide(self, other: Self) -> Self;
    /// `-self`.
    fn negate(self) -> Self;
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
///
/// # Panics
/// If the type has no such number: a bug in polyshard.
pub fn of_number<T: Element>(number: Number) -> T {
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

macro_rules! float {
    ($type:ident $functions:ident) => {
        impl Element for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = $type::NEG_INFINITY;
            const GREATEST: Self = $type::INFINITY;
            inlined! {
                fn subtract(self, other) = self - other;
                fn divide(self, other) = self / other;
                fn negate(self) = -self;
                fn absolute(self) = self.abs();
                fn exponential(self) = math::$functions::exp(self);
                fn logarithm(self) = math::$functions::log(self);
                fn square_root(self) = self.sqrt();
                fn hyperbolic_tangent(self) = math::$functions::tanh(self);
                fn sine(self) = math::$functions::sin(self);
                fn cosine(self) = math::$functions::cos(self);
                fn floored(self) = self.floor();
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
                fn subtract(self, other) = self.wrapping_sub(other);
                fn negate(self) = self.wrapping_neg();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_and_minima_are_those_of_reductions() {
        assert_eq!(Element::maximum(0.0_f64, -0.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(Element::minimum(0.0_f64, -0.0).to_bits(), (-0.0_f64).to_bits());
        assert_eq!((Element::maximum(3f32, 5.0), Element::minimum(-1f32, 2.0)), (5.0, -1.0));
    }
}
