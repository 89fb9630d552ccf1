//! `polyshard random`: writes an array of random numbers.

use crate::command::files::output;
use crate::error::{CliError, Result};
use polyshard::ndarray::{Dimension, indices};
use polyshard::runtime::{Element, Output, Result as RunResult, npy_header};
use std::path::Path;

/// Bytes per write.
const PIECE: usize = 1 << 20;

/// Writes the array of this shape and seed to a file, in C or Fortran order, piece by piece.
pub(crate) fn random<T: Element>(shape: &[usize], seed: u64, out: &Path, fortran: bool) -> Result<String> {
    let bytes = shape.iter().try_fold(size_of::<T>() as u128, |bytes, &extent| bytes.checked_mul(extent as u128));
    let Some(bytes) = bytes.filter(|&bytes| i64::try_from(bytes).is_ok()) else {
        return Err(CliError::refused(format!("an array of shape {shape:?} does not fit a file"), "make it smaller"));
    };
    write::<T>(shape, seed, &output(out)?, fortran, bytes)?;
    Ok(String::new())
}

fn write<T: Element>(shape: &[usize], seed: u64, out: &Output, fortran: bool, bytes: u128) -> RunResult<()> {
    let header = npy_header::<T>(shape, fortran);
    let mut file = out.clone().with_room(bytes + header.len() as u128)?.create()?;
    file.write(&header)?;
    let mut piece: Vec<T> = Vec::with_capacity(PIECE / size_of::<T>());
    // The last dimension is fastest, or the first one in Fortran order.
    let dims: Vec<usize> = if fortran { shape.iter().rev().copied().collect() } else { shape.to_vec() };
    for mut index in indices(dims) {
        if fortran {
            index.slice_mut().reverse();
        }
        piece.push(T::random(seed, index.slice()));
        if piece.len() == piece.capacity() {
            file.write_elements(&piece)?;
            piece.clear();
        }
    }
    file.write_elements(&piece)?;
    file.finish()
}
