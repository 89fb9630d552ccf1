//! The network computed on one rank, array by array.
//!
//! Each product is judged by the operands that were found, so that its bound is that of one product; what is done to
//! elements alone is exact. The inputs are made anew, without asking any rank.

use crate::network::{Arrays, Found, seeds};
use crate::plans::Size;
use ndarray::{Array2, ArrayD, Ix2, Zip};
use polyshard::cli::values::{Number, element};
use polyshard_testing::example::check::check;
use polyshard_testing::example::launch::failure;

/// Compares everything that was found with a sequential computation, and says how far it is apart.
pub(crate) fn judge<T: Number>(found: &Found<T>, size: Size, seed: u64) -> polyshard::Result<Vec<String>> {
    let Size { batch, model, hidden } = size;
    let shapes = [[batch, model], [model, hidden], [hidden, model], [batch, model]];
    let whole = |nth: usize| Array2::from_shape_fn(shapes[nth], |(i, j)| element::<T>(seeds(seed)[nth], &[i, j]));
    let Arrays { x, w1, w2, z, h, y, dy, dh, dz, dx } = &found.arrays;
    same("X", x, &whole(0))?;
    same("W1", w1, &whole(1))?;
    same("W2", w2, &whole(2))?;
    same("H", h, &z.map(|&z| if z > T::ZERO { z } else { T::ZERO }))?;
    same("dY", dy, &Zip::from(y).and(&whole(3)).map_collect(|&y, &target| y.subtract(target)))?;
    same("dZ", dz, &Zip::from(dh).and(z).map_collect(|&dh, &z| if z > T::ZERO { dh } else { T::ZERO }))?;
    let products = [
        ("Z", x.view(), w1.view(), z),
        ("Y", h.view(), w2.view(), y),
        ("dW2", h.t(), dy.view(), &found.dw2),
        ("dH", dy.view(), w2.t(), dh),
        ("dW1", x.t(), dz.view(), &found.dw1),
        ("dX", dz.view(), w1.t(), dx),
    ];
    let judged = products.into_iter().map(|(name, left, right, product)| {
        let inputs = [left, right].map(|input| input.to_owned().into_dyn());
        let judged = check(&inputs.each_ref(), &product.clone().into_dyn(), left.ncols(), sequential)?;
        Ok(format!("{name}: {judged}"))
    });
    judged.collect()
}

/// The product of two matrices, on one rank.
fn sequential<T: Number>(inputs: &[&ArrayD<T>]) -> polyshard::runtime::Result<ArrayD<T>> {
    let matrix = |nth: usize| inputs[nth].view().into_dimensionality::<Ix2>().expect("it is a matrix");
    let (a, b) = (matrix(0), matrix(1));
    let mut product = Array2::from_elem((a.nrows(), b.ncols()), T::ZERO);
    for (a, mut row) in a.rows().into_iter().zip(product.rows_mut()) {
        for (&a, b) in a.iter().zip(b.rows()) {
            row.zip_mut_with(&b, |sum, &b| *sum = sum.add(a.multiply(b)));
        }
    }
    Ok(product.into_dyn())
}

/// Refuses an array that is not what its elements make it.
fn same<T: Number>(name: &str, found: &Array2<T>, expected: &Array2<T>) -> polyshard::Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(failure(format!("the array {name} of `megatron` is wrong: it is not what its operands make it")))
}
