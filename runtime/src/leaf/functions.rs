//! Functions of the values of a row: one loop for each, compiled once for each type of float.

use crate::math::{double, single};
use crate::{DType, Element};
use bytemuck::cast_slice_mut;
use polyshard_program::Function;
use pulp::{Arch, Simd, WithSimd};

/// Values whose loop is unrolled.
const GROUP: usize = 32;

/// Replaces each value by the function of it, which is what [`Element`]'s methods give for one value.
pub(super) fn call<T: Element>(function: Function, values: &mut [T]) {
    match T::DTYPE {
        DType::F32 => of_f32(function, cast_slice_mut(values)),
        DType::F64 => of_f64(function, cast_slice_mut(values)),
        _ => values.iter_mut().for_each(|value| *value = value.call(function)),
    }
}

/// Replaces each value by a function of it, in a loop for the processor's vectors. The function is named, since a closure as
/// long as these would stay a call.
macro_rules! each {
    ($values:expr, $type:ident, $function:path) => {{
        struct Each<'a>(&'a mut [$type]);
        impl WithSimd for Each<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                let (groups, rest) = self.0.as_chunks_mut::<GROUP>();
                for group in groups {
                    let mut values = *group;
                    for value in &mut values {
                        *value = $function(*value);
                    }
                    *group = values;
                }
                for value in rest {
                    *value = $function(*value);
                }
            }
        }
        Arch::new().dispatch(Each($values))
    }};
}

macro_rules! rows {
    ($of_type:ident, $type:ident, $functions:ident) => {
        fn $of_type(function: Function, values: &mut [$type]) {
            // Larger angles take a branch, with which a loop is none of vectors.
            let near = |values: &[$type]| !values.iter().fold(false, |far, x| far | (x.abs() > $functions::NEAR));
            match function {
                Function::Exp => each!(values, $type, $functions::exp),
                Function::Log => each!(values, $type, $functions::log),
                Function::Tanh => each!(values, $type, $functions::tanh),
                Function::Sin if near(values) => each!(values, $type, $functions::sin_near),
                Function::Cos if near(values) => each!(values, $type, $functions::cos_near),
                Function::Sin | Function::Cos | Function::Sqrt | Function::Floor | Function::Abs | Function::Sign => {
                    values.iter_mut().for_each(|value| *value = value.call(function));
                }
            }
        }
    };
}
rows!(of_f32, f32, single);
rows!(of_f64, f64, double);
