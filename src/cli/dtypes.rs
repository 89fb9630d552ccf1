//! From the name of an element type to code that is generic in it.

use crate::DType;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Runs an expression with a name for the type that a [`DType`] stands for.
#[doc(hidden)]
#[macro_export]
macro_rules! __with_type {
    ($dtype:expr, $name:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F32 => {
                type $name = f32;
                $body
            }
            $crate::DType::F64 => {
                type $name = f64;
                $body
            }
            $crate::DType::I32 => {
                type $name = i32;
                $body
            }
            $crate::DType::I64 => {
                type $name = i64;
                $body
            }
            dtype => unreachable!("the command line reads native types alone, not {dtype}"),
        }
    };
}
#[doc(inline)]
pub use crate::__with_type as with_type;

/// Parses an element type on the command line, and lists the four if it is unknown.
pub fn dtype_parser() -> impl TypedValueParser<Value = DType> {
    PossibleValuesParser::new(DType::NATIVE.map(DType::name))
        .map(|name| name.parse().expect("clap lets no other name pass"))
}
