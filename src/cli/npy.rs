//! Whole `.npy` arrays in memory, of either memory order.
//!
//! Distributed programs do not read files like this: `DistArray::read_npy` reads a rank's own part. This is
//! for what looks at all of an array, the command line and the check of an example's answer.

use crate::runtime::{NpyFile, Result};
use crate::{DType, Element};
use ndarray::ArrayD;
use std::path::Path;

/// Returns the element type and the shape that a file's header names.
///
/// # Errors
/// If the file cannot be read, or is not a `.npy` file.
pub fn header(path: &Path) -> Result<(DType, Vec<usize>)> {
    let file = NpyFile::open(path)?;
    Ok((file.dtype(), file.shape().to_vec()))
}

/// Returns the array in a file of elements `T`.
///
/// # Errors
/// If the file cannot be read, is not a `.npy` file, or holds other elements.
pub fn read<T: Element>(path: &Path) -> Result<ArrayD<T>> {
    NpyFile::open(path).and_then(NpyFile::read)
}
