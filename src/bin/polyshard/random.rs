//! `polyshard random`: an array to compute on.

use crate::npy::failed;
use crate::values::{Number, element};
use ndarray::{ArrayD, Dimension, IxDyn};
use npyz::{Order, WriterBuilder};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes the array of this shape and seed to a file, in C or in Fortran order.
pub(crate) fn random<T: Number>(shape: &[usize], seed: u64, out: &Path, fortran: bool) -> Result<String, String> {
    let bytes = shape.iter().try_fold(size_of::<T>(), |bytes, &extent| bytes.checked_mul(extent.max(1)));
    if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(format!("an array of shape {shape:?} does not fit memory; make it smaller"));
    }
    let index = |at: IxDyn| element(seed, Dimension::slice(&at));
    let array = ArrayD::<T>::from_shape_fn(shape, index);
    write(out, &array, if fortran { Order::Fortran } else { Order::C }).map_err(|why| failed("write", out, why))?;
    Ok(String::new())
}

fn write<T: Number>(path: &Path, array: &ArrayD<T>, order: Order) -> io::Result<()> {
    let shape: Vec<_> = array.shape().iter().map(|&extent| extent as u64).collect();
    let mut file = BufWriter::new(File::create(path)?);
    let options = npyz::WriteOptions::new().default_dtype().shape(&shape).order(order);
    let mut writer = options.writer(&mut file).begin_nd()?;
    match order {
        Order::C => writer.extend(array)?,
        Order::Fortran => writer.extend(array.t())?,
    }
    writer.finish()?;
    file.flush()
}
