//! Element types: all tensors have the same, one of four or a name for one of them.
//!
//! ```text
//! A: [f32; n]    known       A: [T; n]    a captured name, which rustc resolves
//! A: [u8; n]     rejected    A: [T; n], B: [f32; n]    rejected, even if `T` is `f32`: the texts differ
//! ```

use crate::checked::Element;
use crate::errors::Errors;
use crate::syntax::Block;
use polyshard_program::DType;
use quote::ToTokens;
use syn::Type;

/// Returns the element type that all tensors have.
pub(crate) fn check(block: &Block, errors: &mut Errors) -> Option<Element> {
    let mut good = true;
    for tensor in super::tensors(block) {
        if element(&tensor.element).is_none() {
            let written = text(&tensor.element);
            let help = "elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them";
            errors.push(&tensor.element, format!("`{written}` is not an element type"), help);
            good = false;
        }
    }
    let first = super::tensors(block).next()?;
    let known = element(&first.element)?;
    for tensor in super::tensors(block).filter(|tensor| text(&tensor.element) != text(&first.element)) {
        if good {
            let (given, other) = (text(&tensor.element), text(&first.element));
            let message = format!("`{}` has elements of `{given}`, but `{}` of `{other}`", tensor.name, first.name);
            errors.push(&tensor.element, message, "a kernel has one element type; convert one of the arrays before");
        }
    }
    good.then(|| Element { known, written: first.element.clone() })
}

fn text(element: &Type) -> String {
    element.to_token_stream().to_string()
}

/// The type, `Some(None)` for a name that stands for one, or `None` for anything else.
fn element(element: &Type) -> Option<Option<DType>> {
    const OTHERS: [&str; 24] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i128", "isize", "f16", "f128", "bool", "char", "str",
        "bf16", "float32", "float64", "int32", "int64", "float", "double", "int", "bfloat16",
    ];
    match element {
        Type::Group(inner) => self::element(&inner.elem),
        Type::Paren(inner) => self::element(&inner.elem),
        Type::Path(path) => match path.path.get_ident().map(ToString::to_string) {
            Some(other) if OTHERS.contains(&&*other) => None,
            name => Some(DType::NATIVE.into_iter().find(|dtype| name.as_deref() == Some(dtype.name()))),
        },
        _ => None,
    }
}
