//! Whole `.npy` arrays in memory, of either memory order.
//!
//! Distributed programs do not read files like this: `DistArray::read_npy` reads a rank's own part. This is
//! for what looks at all of an array, the command line and the check of an example's answer.

use super::values::Number;
use ndarray::{ArrayD, ShapeBuilder};
use npyz::{NpyFile, NpyHeader, Order};
use polyshard::DType;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

/// Returns the element type and the shape that a file's header names.
pub(crate) fn header(path: &Path) -> Result<(DType, Vec<usize>), String> {
    let file = File::open(path).map_err(|why| failed("open", path, why))?;
    let header = NpyHeader::from_reader(BufReader::new(file)).map_err(|why| failed("read", path, not_npy(why)))?;
    let descr = header.dtype().descr();
    let dtype = match descr.trim_matches('\'').trim_start_matches(['<', '>']) {
        "f4" => DType::F32,
        "f8" => DType::F64,
        "i4" => DType::I32,
        "i8" => DType::I64,
        _ => return Err(failed("use", path, format_args!("it holds {descr}; f32, f64, i32 or i64 is needed"))),
    };
    Ok((dtype, header.shape().iter().map(|&extent| extent as usize).collect()))
}

/// Returns the array in a file of elements `T`.
pub(crate) fn read<T: Number>(path: &Path) -> Result<ArrayD<T>, String> {
    let file = File::open(path).map_err(|why| failed("open", path, why))?;
    let file = NpyFile::new(BufReader::new(file)).map_err(|why| failed("read", path, not_npy(why)))?;
    let shape: Vec<_> = file.shape().iter().map(|&extent| extent as usize).collect();
    let fortran = file.order() == Order::Fortran;
    let elements = file.into_vec().map_err(|why| failed("read", path, why))?;
    ArrayD::from_shape_vec(shape.set_f(fortran), elements).map_err(|why| failed("read", path, why))
}

/// Returns what could not be done with a file, and why.
pub(crate) fn failed(doing: &str, path: &Path, why: impl Display) -> String {
    format!("cannot {doing} `{}`: {why}", path.display())
}

fn not_npy(why: io::Error) -> String {
    format!("{why}; it should be a `.npy` file")
}
