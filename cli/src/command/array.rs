//! `polyshard show FILE.npy`: an array as text, much as NumPy prints it.

use crate::error::Result;
use crate::numbers::extents;
use crate::with_type;
use polyshard::ndarray::ArrayD;
use polyshard::runtime::{Element, NpyFile};
use std::fmt::{self, Debug, Display};
use std::path::Path;

/// Number of elements whose width is measured: `ndarray` abbreviates larger arrays.
const MEASURED: usize = 500;

/// An element as text: `Debug` has `1.0` and `1e-300`, where `Display` has `1` and 300 digits.
struct Shown<T>(T);

impl<T: Debug> Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the type, the shape and the elements of an array.
pub(super) fn show(path: &Path) -> Result<String> {
    let file = NpyFile::open(path)?;
    let dtype = file.dtype();
    with_type!(dtype, T => Ok(format!("{dtype}, {}", text(&file.read::<T>()?))))
}

/// The shape, the order if it is Fortran's, and the elements in columns.
fn text<T: Element>(array: &ArrayD<T>) -> String {
    let shape = extents(array.shape());
    let order = if array.is_standard_layout() { "" } else { ", Fortran order" };
    let shown = array.map(|&element| Shown(element));
    let width = shown.iter().take(MEASURED).map(|element| element.to_string().len()).max().unwrap_or(0);
    format!("{shape}{order}\n{shown:width$}\n")
}
