//! Whole `.npy` arrays in memory, of either memory order.
//!
//! Distributed programs do not read files like this: `DistArray::read_npy` reads a rank's own part. This is
//! for what looks at all of an array, the command line and the check of an example's answer.

use ndarray::ArrayD;
use polyshard::runtime::{ElementKind, NpyFile};
use polyshard::{DType, Element};
use std::path::Path;

/// Returns the element type and the shape that a file's header names.
pub(crate) fn header(path: &Path) -> Result<(DType, Vec<usize>), String> {
    let file = NpyFile::open(path).map_err(|why| why.to_string())?;
    let dtype = match file.kind() {
        ElementKind::F32 => DType::F32,
        ElementKind::F64 => DType::F64,
        ElementKind::I32 => DType::I32,
        ElementKind::I64 => DType::I64,
    };
    Ok((dtype, file.shape().to_vec()))
}

/// Returns the array in a file of elements `T`.
pub(crate) fn read<T: Element>(path: &Path) -> Result<ArrayD<T>, String> {
    NpyFile::open(path).and_then(NpyFile::read).map_err(|why| why.to_string())
}
