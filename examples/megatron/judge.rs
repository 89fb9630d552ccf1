//! The network computed on one rank, array by array.
//!
//! Each product is judged by the operands that were found, so that its bound is that of one product; what is done to
//! elements alone is exact. The inputs are made anew, without asking any rank.

use crate::common::check::check;
use crate::common::launch::failure;
use crate::common::operand::Operand;
use crate::common::run::told;
use crate::common::values::Number;
use crate::network::{Arrays, Found, seeds};
use crate::plans::Size;
use ndarray::{Array2, Zip};
use polyshard::DType;

/// Compares everything that was found with a sequential computation, and says how far it is apart.
pub(crate) fn judge<T: Number>(
    found: &Found<T>,
    dtype: DType,
    size: Size,
    seed: u64,
) -> polyshard::Result<Vec<String>> {
    let Size { batch, model, hidden } = size;
    let shapes = [[batch, model], [model, hidden], [hidden, model], [batch, model]];
    let whole = |nth: usize| Operand::Random(seeds(seed)[nth]).whole::<T>(&shapes[nth]).map_err(failure);
    let Arrays { x, w1, w2, z, h, y, dy, dh, dz, dx } = &found.arrays;
    same("X", x, &whole(0)?)?;
    same("W1", w1, &whole(1)?)?;
    same("W2", w2, &whole(2)?)?;
    same("H", h, &z.map(|&z| if z > T::ZERO { z } else { T::ZERO }))?;
    same("dY", dy, &Zip::from(y).and(&whole(3)?).map_collect(|&y, &target| y.minus(target)))?;
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
        let verdict = check(dtype, left, right, product.view().into_dyn());
        Ok(format!("{name}: {}", told("megatron", dtype, &verdict)?))
    });
    judged.collect()
}

/// Refuses an array that is not what its elements make it.
fn same<T: Number>(name: &str, found: &Array2<T>, expected: &Array2<T>) -> polyshard::Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(failure(format!("the array {name} of `megatron` is wrong: it is not what its operands make it")))
}
