//! One GEMM on strided panels, through the `gemm` crate.
//!
//! The crate picks its kernels (AVX-512, AVX2 with FMA, NEON, scalar) when the program runs, so one binary
//! runs on any processor of its architecture. It starts no threads here: ranks already share the cores.
//! With the feature `blas`, products whose strides fit BLAS go to the system's OpenBLAS instead; install the
//! serial one, or set `OPENBLAS_NUM_THREADS=1`.
#![expect(unsafe_code, reason = "calls the `gemm` crate and BLAS, which take pointers and strides")]

use super::panel::{Panel, PanelMut};
use crate::Element;

/// Adds `alpha * a * b` to `c`, or overwrites it unless it `adds`: shapes `[m, k]`, `[k, n]`, `[m, n]` with `sizes` being
/// `[m, n, k]`.
///
/// # Panics
/// If `T` is an integer, or a panel leaves its data: a bug of polyshard.
pub(super) fn multiply<T: Element>(
    sizes: [usize; 3],
    alpha: T,
    a: Panel<'_, T>,
    b: Panel<'_, T>,
    c: PanelMut<'_, T>,
    adds: bool,
) {
    let [m, n, k] = sizes;
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    check(a.data.len(), a.offset, a.strides, [m, k]);
    check(b.data.len(), b.offset, b.strides, [k, n]);
    check(c.data.len(), c.offset, c.strides, [m, n]);
    #[cfg(feature = "blas")]
    if blas::multiply(sizes, alpha, a, b, PanelMut { data: &mut *c.data, ..c }, adds) {
        return;
    }
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
            adds,
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

#[cfg(feature = "blas")]
mod blas {
    use super::{Element, Panel, PanelMut};
    use crate::DType;
    use cblas_sys::{CBLAS_TRANSPOSE, CblasNoTrans, CblasRowMajor, CblasTrans, cblas_dgemm, cblas_sgemm};

    // Nothing is declared here: the functions are those of `cblas-sys`, which names no library.
    #[link(name = "openblas")]
    unsafe extern "C" {}

    /// Does the product if BLAS can express it, and returns whether it did; panels are inside their data.
    pub(super) fn multiply<T: Element>(
        sizes: [usize; 3],
        alpha: T,
        a: Panel<'_, T>,
        b: Panel<'_, T>,
        c: PanelMut<'_, T>,
        adds: bool,
    ) -> bool {
        let [m, n, k] = sizes;
        let turned = |panel: Panel<'_, T>| [panel.strides[1], panel.strides[0]];
        match leading([m, n], c.strides) {
            Some((CblasNoTrans, ldc)) => {
                let Some(ab) = leading([m, k], a.strides).zip(leading([k, n], b.strides)) else { return false };
                call(sizes, alpha, (a, ab.0), (b, ab.1), (c, ldc), adds)
            }
            // The transposed product is row-major then.
            Some((_, ldc)) => {
                let Some(ab) = leading([k, m], turned(a)).zip(leading([n, k], turned(b))) else { return false };
                call([n, m, k], alpha, (b, ab.1), (a, ab.0), (c, ldc), adds)
            }
            None => false,
        }
    }

    /// How BLAS says a row-major matrix of these rows and columns and strides, if it can.
    fn leading(counts: [usize; 2], strides: [i64; 2]) -> Option<(CBLAS_TRANSPOSE, i32)> {
        let rows_of = |outer: usize, inner: usize| {
            let dense = strides[inner] == 1 || counts[inner] == 1;
            let lead = if counts[outer] == 1 { counts[inner] as i64 } else { strides[outer] };
            i32::try_from(lead).ok().filter(|_| dense && lead >= counts[inner] as i64)
        };
        let plain = rows_of(0, 1).map(|lead| (CblasNoTrans, lead));
        plain.or_else(|| rows_of(1, 0).map(|lead| (CblasTrans, lead)))
    }

    fn call<T: Element>(
        sizes: [usize; 3],
        alpha: T,
        (a, (turn_a, lda)): (Panel<'_, T>, (CBLAS_TRANSPOSE, i32)),
        (b, (turn_b, ldb)): (Panel<'_, T>, (CBLAS_TRANSPOSE, i32)),
        (c, ldc): (PanelMut<'_, T>, i32),
        adds: bool,
    ) -> bool {
        let [Ok(m), Ok(n), Ok(k)] = sizes.map(i32::try_from) else { return false };
        let (a, b) = (a.data[a.offset as usize..].as_ptr(), b.data[b.offset as usize..].as_ptr());
        let c = c.data[c.offset as usize..].as_mut_ptr();
        let held = if adds { 1.0 } else { 0.0 };
        macro_rules! gemm {
            ($gemm:ident, $type:ty) => {
                // SAFETY: `T` is this type, as its kind says. The caller has checked that the strides of each
                // panel stay inside its slice, and the leading dimensions are those strides. `c` is borrowed
                // mutably, so neither `a` nor `b` overlaps it.
                unsafe {
                    let (alpha, a, b) = (bytemuck::cast(alpha), a.cast(), b.cast());
                    $gemm(CblasRowMajor, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, held, c.cast::<$type>(), ldc);
                }
            };
        }
        match T::DTYPE {
            DType::F32 => gemm!(cblas_sgemm, f32),
            DType::F64 => gemm!(cblas_dgemm, f64),
            _ => return false,
        }
        true
    }
}
