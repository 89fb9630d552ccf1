//! One GEMM on strided panels: through the crates `gemm-f32` and `gemm-f64` (parts of `gemm`), or blocked as in `blocked.rs`.
//!
//! Kernels are chosen when the program runs (AVX-512, AVX2 with FMA, NEON, scalar; see `vectors.rs`), so one binary runs on any processor of its
//! architecture. They start no threads: ranks already share the cores.
//!
//! `gemm` is the faster one while its operands stay in the second-level cache. In larger products it reads more from the
//! third-level cache, which ranks share, and it packs a transposed `a` four elements of a row at a time, a cache line
//! of which it has then forgotten when it needs the rest. Rates of the blocked product over those of `gemm`, both with AVX2, on one core of
//! a Zen 4 processor that others used as well, with row-major `c`; one letter per operand, `T` for a transposed one:
//!
//! | m x n x k | NN f64 | TN f64 | NT f64 | NN f32 | TN f32 | NT f32 |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 64 x 64 x 256 | 0.85 | 0.96 | 0.85 | 0.97 | 0.94 | 0.47 |
//! | 256 x 1024 x 256 | 0.97 | 1.00 | 0.97 | 0.97 | 0.98 | 0.96 |
//! | 1024 x 16 x 1024 | 0.63 | 0.65 | 0.62 | 0.47 | 0.45 | 0.48 |
//! | 1024 x 64 x 1024 | 0.88 | 1.07 | 0.90 | 0.77 | 1.05 | 0.78 |
//! | 1024 x 256 x 1024 | 1.02 | 1.07 | 1.03 | 0.92 | 1.04 | 0.94 |
//! | 2048 x 128 x 512 | 0.99 | 1.20 | 1.04 | 0.83 | 1.09 | 0.79 |
//! | 2048 x 256 x 128 | 1.07 | 1.02 | 0.99 | 0.95 | 1.04 | 0.95 |
//! | 16 x 1024 x 1024 | 1.03 | 0.97 | 0.82 | 0.81 | 0.78 | 0.81 |
//! | 64 x 1024 x 1024 | 1.01 | 0.91 | 0.87 | 0.95 | 0.93 | 0.86 |
//! | 256 x 256 x 256 | 0.95 | 0.99 | 0.96 | 0.92 | 0.99 | 0.91 |
//! | 128 x 512 x 512 | 0.95 | 0.98 | 0.93 | 0.93 | 0.96 | 0.90 |
//!
//! So [`prefers_blocks`] gives it large products, and those of a few rows with a large matrix, for which `gemm` is the slower one on Zen 3. Which one
//! runs depends on extents, strides and the vectors that all ranks use, so threads and MPI agree.
//!
//! With the feature `blas`, products whose strides fit BLAS go to the system's OpenBLAS instead; install the
//! serial one, or set `OPENBLAS_NUM_THREADS=1`.
#![expect(unsafe_code, reason = "calls GEMMs, which take pointers and strides")]

#[cfg(target_arch = "x86_64")]
mod blocked;
mod vectors;

pub use vectors::Vectors;

use super::panel::{Panel, PanelMut};
use super::scratch::Scratch;
use crate::view::ends;
use crate::{DType, Element};
#[cfg(target_arch = "x86_64")]
use gemm_common::gemm::gemm_basic_generic;

/// Adds `alpha * a * b` to `c`, or overwrites it unless it `adds`: shapes `[m, k]`, `[k, n]`, `[m, n]` with `sizes` being
/// `[m, n, k]`. In blocks if `in_blocks`, as [`prefers_blocks`] says.
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
    in_blocks: bool,
) {
    let [m, n, k] = sizes;
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    check(a.data.len(), a.offset, a.strides, [m, k]);
    check(b.data.len(), b.offset, b.strides, [k, n]);
    check(c.data.len(), c.offset, c.strides, [m, n]);
    // Kernels take the terms of vectors in another order if these lie apart, as they do in an array and not in a tile.
    let apart = [m == 1 && a.strides[1] != 1, n == 1 && b.strides[0] != 1];
    if apart != [false; 2] {
        let mut kept = Scratch::of::<T>(2 * k);
        let (first, second) = kept.split(k);
        let a = if apart[0] { together(first, a, 1) } else { a };
        let b = if apart[1] { together(&mut second[..k], b, 0) } else { b };
        return multiply(sizes, alpha, a, b, c, adds, in_blocks);
    }
    #[cfg(feature = "blas")]
    if blas::multiply(sizes, alpha, a, b, PanelMut { data: &mut *c.data, ..c }, adds) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if in_blocks {
        return match T::DTYPE {
            DType::F32 => blocked::multiply::<f32>(sizes, bytemuck::cast(alpha), a.cast(), b.cast(), c.cast(), adds),
            DType::F64 => blocked::multiply::<f64>(sizes, bytemuck::cast(alpha), a.cast(), b.cast(), c.cast(), adds),
            _ => of_integers(),
        };
    }
    small(sizes, alpha, a, b, c, adds);
}

/// A copy of a vector in a panel, of which it goes along this dimension, as many elements as there is room for.
fn together<'a, T: Element>(
    room: &'a mut [T],
    Panel { data, offset, mut strides }: Panel<'_, T>,
    along: usize,
) -> Panel<'a, T> {
    let stride = std::mem::replace(&mut strides[along], 1);
    (0..).zip(&mut *room).for_each(|(nth, into)| *into = data[(offset + nth * stride) as usize]);
    Panel { data: room, offset: 0, strides }
}

/// The product through `gemm-f32` or `gemm-f64`, the two of the crate `gemm` that are for our types; panels are inside their data.
fn small<T: Element>(
    [m, n, k]: [usize; 3],
    alpha: T,
    a: Panel<'_, T>,
    b: Panel<'_, T>,
    c: PanelMut<'_, T>,
    adds: bool,
) {
    // Its kernels write columns.
    if c.strides[0].abs() > c.strides[1].abs() {
        return small([n, m, k], alpha, b.turned(), a.turned(), c.turned(), adds);
    }
    let (mut a_at, mut b_at, mut c_at) = (a.offset, b.offset, c.offset);
    let ([mut a_row, mut a_column], [mut b_row, mut b_column], [mut c_row, mut c_column]) =
        (a.strides, b.strides, c.strides);
    // They also take the loops in the order in which their strides are positive.
    if c_row < 0 {
        reverse(m, [(&mut c_at, &mut c_row), (&mut a_at, &mut a_row)]);
    }
    if c_column < 0 {
        reverse(n, [(&mut c_at, &mut c_column), (&mut b_at, &mut b_column)]);
    }
    if a_column < 0 {
        reverse(k, [(&mut a_at, &mut a_column), (&mut b_at, &mut b_row)]);
    }
    let [c_column, c_row, a_column, a_row, b_column, b_row] =
        [c_column, c_row, a_column, a_row, b_column, b_row].map(|stride| stride as isize);
    macro_rules! product {
        ($part:ident, $type:ident, $lanes:literal) => {
            // SAFETY: `T` is this type, as its kind says. The caller has checked that every element that the strides reach
            // from the first one is inside its slice, and reversing a loop reaches the same. `c` is borrowed mutably, so
            // neither `a` nor `b` overlaps it. The kernels for AVX2 and FMA run where the processor has both, as `V3` shows.
            unsafe {
                let c = c.data.as_mut_ptr().offset(c_at as isize).cast::<$type>();
                let a = a.data.as_ptr().offset(a_at as isize).cast();
                let b = b.data.as_ptr().offset(b_at as isize).cast();
                let (one, alpha) = (1.0, bytemuck::cast(alpha));
                let alone = gemm_common::Parallelism::None;
                // What the crate would choose by itself without AVX-512.
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

/// Takes a loop of `count` iterations from its last one to its first: where operands begin, and their strides.
fn reverse(count: usize, operands: [(&mut i64, &mut i64); 2]) {
    for (at, stride) in operands {
        *at += (count as i64 - 1) * *stride;
        *stride = -*stride;
    }
}

#[cold]
fn of_integers() -> ! {
    unreachable!("products of integers are not for floats' kernels; this is a bug of polyshard")
}

/// Whether the blocked product is the faster one; see the table above.
///
/// It is with AVX2 and FMA; with AVX-512, and on other architectures, `gemm` alone is used.
pub(super) fn prefers_blocks([m, n, k]: [usize; 3], a: [i64; 2], b: [i64; 2], c: [i64; 2]) -> bool {
    // The product is the same if all three matrices are transposed, so `c` may be seen as row-major.
    let (a, b, rows, columns) = if row_major(c) { (a, b, m, n) } else { (turned(b), turned(a), n, m) };
    let large = rows >= 512 && columns >= if a[1] == 1 { 256 } else { 64 } && k >= 128;
    let thin = (8..=16).contains(&rows) && columns >= 512 && k >= 512 && b[1] == 1;
    (large || thin) && Vectors::in_use() == Vectors::Avx2
}

/// The most terms of products that are computed as outer products of vectors, each term added to what is there.
pub(super) const VECTORS: usize = 2;

/// The least rows or columns with which products are computed in one way, whichever that is: with fewer, other kernels may add up their terms
/// in another order, or another way may be the faster one.
pub(super) fn least_rows() -> usize {
    if Vectors::in_use() == Vectors::Avx2 { 512 } else { 257 }
}

/// Whether products of these rows and columns, computed in the same way, add up so many terms in the same order, operands having the same unit strides.
///
/// Products with a vector, and with at most 256 elements, have kernels of their own in `gemm`. Others take terms in blocks whose length depends on rows
/// and columns where neither are more than 64, but is never below 512 (`gemm-common`, `gemm.rs` and `cache.rs`). OpenBLAS has other kernels for small
/// products. Blocked products are alike whatever their rows and columns.
pub(super) fn sums_alike([one, other]: [[usize; 2]; 2], terms: usize) -> bool {
    let is_plain = |[m, n]: [usize; 2]| m.min(n) > 1 && m * n > 256;
    let is_large = |[m, n]: [usize; 2]| m.min(n) > 4 && m.max(n) > 64;
    let all = |of: &dyn Fn([usize; 2]) -> bool| of(one) && of(other);
    one == other || all(&is_large) || all(&is_plain) && terms <= 512 && cfg!(not(feature = "blas"))
}

fn turned([row, column]: [i64; 2]) -> [i64; 2] {
    [column, row]
}

fn row_major(c: [i64; 2]) -> bool {
    c[0].abs() >= c[1].abs()
}

/// Has the lines come in which a row of `c` begins and ends.
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
        "a matrix product touches elements {least}..={greatest} of a panel of {len}; this is a bug of polyshard"
    );
}

#[cfg(feature = "blas")]
mod blas {
    use super::{DType, Element, Panel, PanelMut};
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
