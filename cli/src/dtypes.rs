//! Element types on a command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use polyshard::layout::DType;

/// Parses an element type on the command line; an error lists the four.
pub(crate) fn dtype_parser() -> impl TypedValueParser<Value = DType> {
    PossibleValuesParser::new(DType::NATIVE.map(DType::name))
        .map(|name| name.parse().expect("clap lets no other name pass"))
}
