//! What `.npy` files say of their elements, in NumPy's words.

use crate::{Element, ElementKind, Error};
use npyz::{DType, Endianness, TypeStr};
use std::path::Path;

/// Returns the type of `T` in a file with these bytes: `<f4` for `f32` with little ones.
pub(super) fn type_of<T: Element>(endianness: Endianness) -> TypeStr {
    let code = match T::KIND {
        ElementKind::F32 => "f4",
        ElementKind::F64 => "f8",
        ElementKind::I32 => "i4",
        ElementKind::I64 => "i8",
    };
    let text = format!("{}{code}", endianness.to_str());
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no type of NumPy's; this is a bug of polyshard"))
}

/// Returns whether the bytes of elements of `T` in a file must be swapped, or nothing if it holds another type.
pub(super) fn swapped<T: Element>(held: &DType) -> Option<bool> {
    let is = |endianness| *held == DType::Plain(type_of::<T>(endianness));
    let native = Endianness::of_machine();
    [Endianness::Little, Endianness::Big].into_iter().find(|&endianness| is(endianness)).map(|held| held != native)
}

pub(super) fn error(doing: &str, path: &Path, why: impl std::fmt::Display) -> Error {
    Error::File(format!("cannot {doing} `{}`: {why}", path.display()))
}
