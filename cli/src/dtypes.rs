//! Calls generic code for an element type given by name.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use polyshard::layout::DType;

/// Runs an expression with a name for the type that a [`DType`](::polyshard::layout::DType) stands for.
#[macro_export]
macro_rules! with_type {
    ($dtype:expr, $name:ident => $body:expr) => {
        match $dtype {
            ::polyshard::layout::DType::F32 => {
                type $name = f32;
                $body
            }
            ::polyshard::layout::DType::F64 => {
                type $name = f64;
                $body
            }
            ::polyshard::layout::DType::I32 => {
                type $name = i32;
                $body
            }
            ::polyshard::layout::DType::I64 => {
                type $name = i64;
                $body
            }
            dtype => unreachable!("the command line reads native types alone, not {dtype}"),
        }
    };
}

/// Parses an element type on the command line; an error lists the four.
pub(crate) fn dtype_parser() -> impl TypedValueParser<Value = DType> {
    PossibleValuesParser::new(DType::NATIVE.map(DType::name))
        .map(|name| name.parse().expect("clap lets no other name pass"))
}
