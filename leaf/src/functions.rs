//! Functions of the values of a row: one loop for each, compiled once for each type of float.

use super::vector::GROUP;
use crate::math::{double, single};
use crate::{DType, Element};
use bytemuck::{cast, cast_slice, cast_slice_mut};
use polyshard_program::Function;
use pulp::{Arch, Simd, WithSimd};

/// The arguments of a function, and the other operations of the same pass.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a, T> {
    /// The row of arguments; `None` for the current values of the output.
    pub(super) from: Option<&'a [T]>,
    /// Whether the arguments are negated.
    pub(super) negated: bool,
    /// The row by which the values are multiplied.
    pub(super) times: Option<&'a [T]>,
    /// The value that is added last.
    pub(super) end: T,
}

/// Writes the results of a pass for each value of a row to `out`, with the function that [`Element`]'s methods compute for one value.
pub(super) fn call<T: Element>(function: Function, pass: Pass<'_, T>, out: &mut [T]) {
    match T::DTYPE {
        DType::F32 => of_f32(function, pass.cast(), cast_slice_mut(out)),
        DType::F64 => of_f64(function, pass.cast(), cast_slice_mut(out)),
        _ => one_by_one(function, pass, out),
    }
}

impl<'a, T: Element> Pass<'a, T> {
    /// The same pass, with the same type under another name.
    fn cast<U: Element>(self) -> Pass<'a, U> {
        let Self { from, negated, times, end } = self;
        Pass { from: from.map(cast_slice), negated, times: times.map(cast_slice), end: cast(end) }
    }
}

fn one_by_one<T: Element>(function: Function, pass: Pass<'_, T>, out: &mut [T]) {
    let Pass { from, negated, times, end } = pass;
    for (i, out) in out.iter_mut().enumerate() {
        let of = from.map_or(*out, |from| from[i]);
        let value = if negated { of.negate() } else { of }.call(function);
        *out = times.map_or(value, |times| value.multiply(times[i])).add(end);
    }
}

/// Writes the results of a pass in a loop for the processor's vectors. The function is named, since a closure as long as these would stay a
/// call.
macro_rules! each {
    ($pass:expr, $out:expr, $type:ident, $function:path) => {{
        struct Each<'a>(Pass<'a, $type>, &'a mut [$type]);
        impl WithSimd for Each<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                let Self(Pass { from, negated, times, end }, out) = self;
                let sign = if negated { (-0.0 as $type).to_bits() } else { 0 };
                // The same for all passes: a sign that is unchanged, and a product with 1.
                let value = |of: $type, times: $type| $function($type::from_bits(of.to_bits() ^ sign)) * times + end;
                let (groups, rest) = out.as_chunks_mut::<GROUP>();
                let (from_groups, from_rest) = from.map(|from| from.as_chunks::<GROUP>()).unzip();
                let (times_groups, times_rest) = times.map(|times| times.as_chunks::<GROUP>()).unzip();
                let ones = [1.0; GROUP];
                for (number, group) in groups.iter_mut().enumerate() {
                    let held;
                    let from = match from_groups {
                        Some(groups) => &groups[number],
                        None => {
                            held = *group;
                            &held
                        }
                    };
                    let times = times_groups.map_or(&ones, |groups| &groups[number]);
                    let mut values = [0.0; GROUP];
                    for (i, value_of) in values.iter_mut().enumerate() {
                        *value_of = value(from[i], times[i]);
                    }
                    *group = values;
                }
                for (number, out) in rest.iter_mut().enumerate() {
                    let of = from_rest.map_or(*out, |rest| rest[number]);
                    *out = value(of, times_rest.map_or(1.0, |rest| rest[number]));
                }
            }
        }
        Arch::new().dispatch(Each($pass, $out))
    }};
}

macro_rules! rows {
    ($of_type:ident, $type:ident, $functions:ident) => {
        fn $of_type(function: Function, pass: Pass<'_, $type>, out: &mut [$type]) {
            // Larger angles take a branch, which keeps a loop from being vectorised.
            let near = |values: &[$type]| !values.iter().fold(false, |far, x| far | (x.abs() > $functions::NEAR));
            match function {
                Function::Exp => each!(pass, out, $type, $functions::exp),
                Function::Log => each!(pass, out, $type, $functions::log),
                Function::Tanh => each!(pass, out, $type, $functions::tanh),
                Function::Sin if near(pass.from.unwrap_or(out)) => each!(pass, out, $type, $functions::sin_near),
                Function::Cos if near(pass.from.unwrap_or(out)) => each!(pass, out, $type, $functions::cos_near),
                Function::Sin | Function::Cos | Function::Sqrt | Function::Floor | Function::Abs | Function::Sign => {
                    one_by_one(function, pass, out);
                }
            }
        }
    };
}
rows!(of_f32, f32, single);
rows!(of_f64, f64, double);
