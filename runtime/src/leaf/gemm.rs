//! One GEMM on strided panels, through the `gemm` crate.
//!
//! The crate picks its kernels (AVX-512, AVX2 with FMA, NEON, scalar) when the program runs, so one binary
//! runs on any processor of its architecture. It starts no threads here: ranks already share the cores.
#![expect(unsafe_code, reason = "calls the `gemm` crate, which takes pointers and strides")]

use super::contract::{Panel, PanelMut};
use crate::Element;

/// Adds `alpha * a * b` to `c`: shapes `[m, k]`, `[k, n]`, `[m, n]` with `sizes` being `[m, n, k]`.
///
/// # Panics
/// If `T` is an integer, or a panel leaves its data: a bug of polyshard.
pub(super) fn multiply<T: Element>(sizes: [usize; 3], alpha: T, a: Panel<'_, T>, b: Panel<'_, T>, c: PanelMut<'_, T>) {
    let [m, n, k] = sizes;
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    check(a.data.len(), a.offset, a.strides, [m, k]);
    check(b.data.len(), b.offset, b.strides, [k, n]);
    check(c.data.len(), c.offset, c.strides, [m, n]);
    let stride = |stride: i64| stride as isize;
    // SAFETY: the three checks above say that every element that the strides reach from the first one is
    // inside its slice. `c` is borrowed mutably, so neither `a` nor `b` overlaps it. The crate takes `f32`
    // and `f64`, and panics for another type.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.data.as_mut_ptr().offset(stride(c.offset)),
            stride(c.strides[1]),
            stride(c.strides[0]),
            true,
            a.data.as_ptr().offset(stride(a.offset)),
            stride(a.strides[1]),
            stride(a.strides[0]),
            b.data.as_ptr().offset(stride(b.offset)),
            stride(b.strides[1]),
            stride(b.strides[0]),
            T::ONE,
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

fn check(len: usize, offset: i64, strides: [i64; 2], counts: [usize; 2]) {
    let reach = |i: usize| i128::from(strides[i]) * (counts[i] as i128 - 1);
    let least = i128::from(offset) + reach(0).min(0) + reach(1).min(0);
    let greatest = i128::from(offset) + reach(0).max(0) + reach(1).max(0);
    assert!(
        least >= 0 && greatest < len as i128,
        "a matrix product touches elements {least}..={greatest} of a panel of {len}; this is a bug of polyshard"
    );
}
