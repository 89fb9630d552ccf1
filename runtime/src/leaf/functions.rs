//! Functions of the values of a row: one loop for each, compiled once for each type of float.

use crate::math::{double, single};
use crate::{DType, Element};
use bytemuck::{cast, cast_slice, cast_slice_mut};
use polyshard_program::Function;
use pulp::{Arch, Simd, WithSimd};

/// Values whose loop is unrolled.
const GROUP: usize = 32;

/// Writes the function of each value of a row, and `end` added to it, to `out`: of `from`, or of what `out` holds. It is what
/// [`Element`]'s methods give for one value.
pub(super) fn call<T: Element>(function: Function, from: Option<&[T]>, out: &mut [T], end: T) {
    match T::DTYPE {
        DType::F32 => of_f32(function, from.map(cast_slice), cast_slice_mut(out), cast(end)),
        DType::F64 => of_f64(function, from.map(cast_slice), cast_slice_mut(out), cast(end)),
        _ => one_by_one(function, from, out, end),
    }
}

fn one_by_one<T: Element>(function: Function, from: Option<&[T]>, out: &mut [T], end: T) {
    if let Some(from) = from {
        out.copy_from_slice(from);
    }
    out.iter_mut().for_each(|value| *value = value.call(function).add(end));
}

/// Writes a function of each value in a loop for the processor's vectors. The function is named, since a closure as long as these
/// would stay a call.
macro_rules! each {
    ($from:expr, $out:expr, $end:expr, $type:ident, $function:path) => {{
        struct Each<'a>(Option<&'a [$type]>, &'a mut [$type], $type);
        impl WithSimd for Each<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                let Self(from, out, end) = self;
                let (groups, rest) = out.as_chunks_mut::<GROUP>();
                let (from_groups, from_rest) = from.map(|from| from.as_chunks::<GROUP>()).unzip();
                for (number, group) in groups.iter_mut().enumerate() {
                    let mut values = from_groups.map_or(*group, |groups| groups[number]);
                    for value in &mut values {
                        *value = $function(*value) + end;
                    }
                    *group = values;
                }
                for (number, value) in rest.iter_mut().enumerate() {
                    *value = $function(from_rest.map_or(*value, |rest| rest[number])) + end;
                }
            }
        }
        Arch::new().dispatch(Each($from, $out, $end))
    }};
}

macro_rules! rows {
    ($of_type:ident, $type:ident, $functions:ident) => {
        fn $of_type(function: Function, from: Option<&[$type]>, out: &mut [$type], end: $type) {
            // Larger angles take a branch, with which a loop is none of vectors.
            let near = |values: &[$type]| !values.iter().fold(false, |far, x| far | (x.abs() > $functions::NEAR));
            match function {
                Function::Exp => each!(from, out, end, $type, $functions::exp),
                Function::Log => each!(from, out, end, $type, $functions::log),
                Function::Tanh => each!(from, out, end, $type, $functions::tanh),
                Function::Sin if near(from.unwrap_or(out)) => each!(from, out, end, $type, $functions::sin_near),
                Function::Cos if near(from.unwrap_or(out)) => each!(from, out, end, $type, $functions::cos_near),
                Function::Sin | Function::Cos | Function::Sqrt | Function::Floor | Function::Abs | Function::Sign => {
                    one_by_one(function, from, out, end);
                }
            }
        }
    };
}
rows!(of_f32, f32, single);
rows!(of_f64, f64, double);
