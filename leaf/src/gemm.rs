//! One GEMM on strided panels: through the crates `gemm-f32` and `gemm-f64` (parts of `gemm`), or blocked as in `blocked.rs`.
//!
//! Kernels are chosen at run time (AVX-512, AVX2 with FMA, NEON, scalar; see `vectors.rs`), so one binary runs on any processor of its
//! architecture. They start no threads: ranks already share the cores.
//!
//! `gemm` is faster while its operands stay in the second-level cache. In larger products it reads more from the third-level cache, which
//! ranks share, and it packs a transposed `a` four elements of a row at a time, so that a cache line is evicted before the rest of it is
//! needed. Rates of the blocked product over those of `gemm`, both with AVX2, on one core of a Zen 4 processor that others used as well,
//! with row-major `c`; one letter per operand, `T` for a transposed one:
//!
//! | m x n x k | NN f64 | TN f64 | NT f64 | NN f32 | TN f32 | NT f32 |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 1024 x 16 x 1024 | 0.63 | 0.65 | 0.62 | 0.47 | 0.45 | 0.48 |
//! | 1024 x 256 x 1024 | 1.02 | 1.07 | 1.03 | 0.92 | 1.04 | 0.94 |
//! | 2048 x 128 x 512 | 0.99 | 1.20 | 1.04 | 0.83 | 1.09 | 0.79 |
//! | 16 x 1024 x 1024 | 1.03 | 0.97 | 0.82 | 0.81 | 0.78 | 0.81 |
//! | 256 x 256 x 256 | 0.95 | 0.99 | 0.96 | 0.92 | 0.99 | 0.91 |
//!
//! So [`prefers_blocks`] selects the blocked product for large products, and for those of a few rows with a large matrix, for which `gemm`
//! is slower on Zen 3. The choice depends on extents, strides and the vectors that all ranks use, so threads and MPI agree.
#![expect(unsafe_code, reason = "calls GEMMs, which take pointers and strides")]

#[cfg(target_arch = "x86_64")]
mod blocked;
mod vectors;

pub use vectors::Vectors;

use super::panel::{MatrixProduct, Panel};
use super::scratch::Scratch;
use crate::view::ends;
use crate::{DType, Element};
#[cfg(target_arch = "x86_64")]
use gemm_common::gemm::gemm_basic_generic;

/// Computes the product, blocked if `in_blocks`, as [`prefers_blocks`] decides.
///
/// # Panics
/// If `T` is an integer, or a panel exceeds its data: a bug in polyshard.
pub(super) fn multiply<T: Element>(product: MatrixProduct<'_, T>, in_blocks: bool) {
    let MatrixProduct { sizes: [m, n, k], a, b, c, .. } = &product;
    let [m, n, k] = [*m, *n, *k];
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    check(a.data.len(), a.offset, a.strides, [m, k]);
    check(b.data.len(), b.offset, b.strides, [k, n]);
    check(c.data.len(), c.offset, c.strides, [m, n]);
    // Kernels take the terms of vectors in another order if these are not contiguous, as in an array but not in a tile.
    let apart = [m == 1 && a.strides[1] != 1, n == 1 && b.strides[0] != 1];
    if apart != [false; 2] {
        let mut kept = Scratch::of::<T>(2 * k);
        let (first, second) = kept.split(k);
        let a = if apart[0] { together(first, product.a, 1) } else { product.a };
        let b = if apart[1] { together(&mut second[..k], product.b, 0) } else { product.b };
        return multiply(MatrixProduct { a, b, ..product }, in_blocks);
    }
    #[cfg(target_arch = "x86_64")]
    if in_blocks {
        return match T::DTYPE {
            DType::F32 => blocked::multiply::<f32>(product.cast()),
            DType::F64 => blocked::multiply::<f64>(product.cast()),
            _ => of_integers(),
        };
    }
    small(product);
}

/// A contiguous copy of a vector in a panel, along this dimension, as long as `room`.
fn together<'a, T: Element>(
    room: &'a mut [T],
    Panel { data, offset, mut strides }: Panel<'_, T>,
    along: usize,
) -> Panel<'a, T> {
    let stride = std::mem::replace(&mut strides[along], 1);
    (0..).zip(&mut *room).for_each(|(nth, into)| *into = data[(offset + nth * stride) as usize]);
    Panel { data: room, offset: 0, strides }
}

/// The product through `gemm-f32` or `gemm-f64`, the two crates of `gemm` for our types; panels are inside their data.
fn small<T: Element>(product: MatrixProduct<'_, T>) {
    // Its kernels write columns.
    let [down, right] = product.c.strides;
    let product = if down.abs() > right.abs() { product.turned() } else { product };
    let MatrixProduct { sizes: [m, n, k], alpha, mut a, mut b, mut c, adds } = product;
    // They also take each loop in the direction in which its strides are positive.
    if c.strides[0] < 0 {
        (a, c) = (a.reversed(0, m), c.reversed(0, m));
    }
    if c.strides[1] < 0 {
        (b, c) = (b.reversed(1, n), c.reversed(1, n));
    }
    if a.strides[1] < 0 {
        (a, b) = (a.reversed(1, k), b.reversed(0, k));
    }
    let [[a_row, a_column], [b_row, b_column], [c_row, c_column]] =
        [a.strides, b.strides, c.strides].map(|strides| strides.map(|stride| stride as isize));
    macro_rules! product {
        ($part:ident, $type:ident, $lanes:literal) => {
            // SAFETY: `T` is this type, as its kind says. The caller has checked that every element that the strides reach from the first
            // one is inside its slice, and a reversed loop reaches the same elements. `c` is borrowed mutably, so neither `a` nor `b`
            // overlaps it. The kernels for AVX2 and FMA run only if the processor has both, as `V3` shows.
            unsafe {
                let c = c.data.as_mut_ptr().offset(c.offset as isize).cast::<$type>();
                let a = a.data.as_ptr().offset(a.offset as isize).cast();
                let b = b.data.as_ptr().offset(b.offset as isize).cast();
                let (one, alpha) = (1.0, bytemuck::cast(alpha));
                let alone = gemm_common::Parallelism::None;
                // The kernel that the crate would choose without AVX-512.
                #[cfg(target_arch = "x86_64")]
                if let (Vectors::Avx2, Some(simd)) = (Vectors::in_use(), gemm_common::simd::V3::try_new()) {
                    use $part::microkernel::fma::$type::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};
                    return gemm_basic_generic::<_, $type, $lanes, { MR_DIV_N * $lanes }, NR, MR_DIV_N, H_M, H_N>(
                        simd, m, n, k, c, c_column, c_row, adds, a, a_column, a_row, b, b_column, b_row, one, alpha,
                        false, false, false, |a, b, c| a * b + c, &UKR, &H_UKR, false, alone,
                    );
                }
                $part::gemm::$type::get_gemm_fn()(
                    m, n, k, c, c_column, c_row, adds, a, a_column, a_row, b, b_column, b_row, one, alpha, false, false,
                    false, alone,
                );
            }
        };
    }
    match T::DTYPE {
        DType::F32 => product!(gemm_f32, f32, 8),
        DType::F64 => product!(gemm_f64, f64, 4),
        _ => of_integers(),
    }
}

#[cold]
fn of_integers() -> ! {
    unreachable!("products of integers are not for floats' kernels; this is a bug in polyshard")
}

/// Whether the blocked product is faster; see the table above.
///
/// It is with AVX2 and FMA; with AVX-512, and on other architectures, only `gemm` is used.
pub(super) fn prefers_blocks([m, n, k]: [usize; 3], a: [i64; 2], b: [i64; 2], c: [i64; 2]) -> bool {
    // The product is the same if all three matrices are transposed, so `c` may be seen as row-major.
    let (a, b, rows, columns) = if row_major(c) { (a, b, m, n) } else { (turned(b), turned(a), n, m) };
    let large = rows >= 512 && columns >= if a[1] == 1 { 256 } else { 64 } && k >= 128;
    let thin = (8..=16).contains(&rows) && columns >= 512 && k >= 512 && b[1] == 1;
    (large || thin) && Vectors::in_use() == Vectors::Avx2
}

/// The maximum number of terms with which products are computed as outer products of vectors, each term added to the target.
pub(super) const VECTORS: usize = 2;

/// The minimum number of rows or columns from which products are always computed in the same way: with fewer, other kernels may add up
/// their terms in another order, or another way may be faster.
pub(super) fn least_rows() -> usize {
    if Vectors::in_use() == Vectors::Avx2 { 512 } else { 257 }
}

/// Whether products of these rows and columns, computed in the same way, add up `terms` terms in the same order, for operands with the same
/// unit strides.
///
/// Products with a vector, and with at most 256 elements, have kernels of their own in `gemm`. Others take terms in blocks whose length
/// depends on rows and columns if neither are more than 64, but is never below 512 (`gemm-common`, `gemm.rs` and `cache.rs`). Blocked
/// products do not depend on their rows and columns.
pub(super) fn sums_alike([one, other]: [[usize; 2]; 2], terms: usize) -> bool {
    let is_plain = |[m, n]: [usize; 2]| m.min(n) > 1 && m * n > 256;
    let is_large = |[m, n]: [usize; 2]| m.min(n) > 4 && m.max(n) > 64;
    let all = |of: &dyn Fn([usize; 2]) -> bool| of(one) && of(other);
    one == other || all(&is_large) || all(&is_plain) && terms <= 512
}

fn turned([row, column]: [i64; 2]) -> [i64; 2] {
    [column, row]
}

fn row_major(c: [i64; 2]) -> bool {
    c[0].abs() >= c[1].abs()
}

/// Prefetches the cache lines in which a row of `c` begins and ends.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch<T>(row: &[T]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let ends = row.as_ptr_range();
    // SAFETY: a prefetch reads nothing that the program sees, and faults at no address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(ends.start.cast());
        _mm_prefetch::<_MM_HINT_T0>(ends.end.cast::<i8>().wrapping_sub(1));
    }
}

fn check(len: usize, offset: i64, strides: [i64; 2], counts: [usize; 2]) {
    let (least, greatest) = ends(offset, &strides, &counts);
    assert!(
        least >= 0 && greatest < len as i128,
        "a matrix product touches elements {least}..={greatest} of a panel of {len}; this is a bug in polyshard"
    );
}
