//! Products with AVX2 and fused multiply-add, blocked for the caches.
//!
//! As in GotoBLAS: some rows of `b` are packed for the third-level cache and a block of `a` for half of the second-level cache, then 6 rows
//! and 2 vectors of `c` at a time are summed up in registers. Each element is summed up in blocks of [`Floats::TERMS`] terms, from the
//! first one to the last, whatever the rows and columns of the product and of the block: rows and columns beyond the last are packed as
//! zeros and not written.

use super::super::panel::{MatrixProduct, Panel, PanelMut};
use super::super::scratch::Scratch;
use super::{prefetch, row_major};
use bytemuck::Pod;
use gemm_common::cache::CACHE_INFO;
use pulp::x86::V3;
use pulp::{NullaryFnOnce, f32x8, f64x4};
use std::array;

/// Rows of `c` in registers: with 2 vectors of `b` and an element of `a`, they take 15 of 16.
const ROWS: usize = 6;

/// Columns of `b` that are packed together.
const COLUMNS: usize = 2048;

/// Bytes of a cache line.
const LINE: usize = 64;

/// An element type, and its vectors.
pub(super) trait Floats: Pod + Default {
    type Vector: Pod;
    /// The maximum number of terms of a block.
    const TERMS: usize;

    fn splat(simd: V3, value: Self) -> Self::Vector;
    fn mul_add(simd: V3, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// Packs rows as wide as 2 vectors.
    fn pack_wide(from: Panel<'_, Self>, rows: usize, terms: usize, into: &mut [Self]);
}

macro_rules! floats {
    ($type:ident, $vector:ident, $lanes:literal, $terms:literal, $splat:ident, $mul_add:ident) => {
        impl Floats for $type {
            type Vector = $vector;
            const TERMS: usize = $terms;

            #[inline(always)]
            fn splat(simd: V3, value: Self) -> $vector {
                simd.$splat(value)
            }

            #[inline(always)]
            fn mul_add(simd: V3, a: $vector, b: $vector, c: $vector) -> $vector {
                simd.$mul_add(a, b, c)
            }

            #[inline(always)]
            fn pack_wide(from: Panel<'_, Self>, rows: usize, terms: usize, into: &mut [Self]) {
                pack::<Self, { 2 * $lanes }, 8>(from, rows, terms, into);
            }
        }
    };
}
floats!(f64, f64x4, 4, 256, splat_f64x4, mul_add_f64x4);
floats!(f32, f32x8, 8, 384, splat_f32x8, mul_add_f32x8);

/// Computes the product; `c` is overwritten with the same bits as if the product was added to 0.
///
/// # Panics
/// If the processor has no AVX2 and FMA, or a panel exceeds its data: a bug in polyshard.
pub(super) fn multiply<T: Floats>(product: MatrixProduct<'_, T>) {
    let product = if row_major(product.c.strides) { product } else { product.turned() };
    let simd = V3::try_new().expect("blocked products are for processors with AVX2 and FMA");
    simd.vectorize(Blocked { simd, product });
}

struct Blocked<'a, T> {
    simd: V3,
    product: MatrixProduct<'a, T>,
}

impl<T: Floats> NullaryFnOnce for Blocked<'_, T> {
    type Output = ();

    // All functions that it calls are inlined, closures only if they are small: others would be compiled without vectors.
    #[inline(always)]
    fn call(self) {
        let Self { simd, product: MatrixProduct { sizes: [m, n, k], alpha, a, b, mut c, adds } } = self;
        let wide = 2 * size_of::<T::Vector>() / size_of::<T>();
        let cached = CACHE_INFO[1].cache_bytes / 2 / (T::TERMS * size_of::<T>()) / ROWS * ROWS;
        // Blocks of about equally many rows.
        let rows = m.div_ceil(m.div_ceil(cached.max(ROWS))).next_multiple_of(ROWS);
        let terms = T::TERMS.min(k);
        let packed = (rows + COLUMNS.min(n).next_multiple_of(wide)) * terms;
        let mut room = Scratch::of::<T>(packed + LINE / size_of::<T>());
        let (room, _) = room.split::<T>(packed + LINE / size_of::<T>());
        let aligned = room.as_ptr().align_offset(LINE);
        let (of_a, of_b) = room[aligned..].split_at_mut(rows * terms);
        for first_column in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - first_column);
            for first_term in (0..k).step_by(T::TERMS) {
                let terms = T::TERMS.min(k - first_term);
                let adds = adds || first_term > 0;
                let of_b = &mut of_b[..columns.next_multiple_of(wide) * terms];
                T::pack_wide(b.from(first_term, first_column).turned(), columns, terms, of_b);
                let of_b: &[[T::Vector; 2]] = bytemuck::cast_slice::<T, T::Vector>(of_b).as_chunks().0;
                for first_row in (0..m).step_by(rows) {
                    let rows = rows.min(m - first_row);
                    let of_a = &mut of_a[..rows.next_multiple_of(ROWS) * terms];
                    pack::<T, ROWS, ROWS>(a.from(first_row, first_term), rows, terms, of_a);
                    let of_a: &[[T; ROWS]] = of_a.as_chunks().0;
                    for (column, of_b) in (0..columns).step_by(wide).zip(of_b.chunks_exact(terms)) {
                        for (row, of_a) in (0..rows).step_by(ROWS).zip(of_a.chunks_exact(terms)) {
                            let counts = [ROWS.min(rows - row), wide.min(columns - column)];
                            let into = c.borrowed().from(first_row + row, first_column + column);
                            tile(simd, alpha, of_a, of_b, into, counts, adds);
                        }
                    }
                }
            }
        }
    }
}

/// Adds the product of packed rows and columns to `c`, which may have fewer of them.
#[inline(always)]
fn tile<T: Floats>(
    simd: V3,
    alpha: T,
    a: &[[T; ROWS]],
    b: &[[T::Vector; 2]],
    c: PanelMut<'_, T>,
    [rows, columns]: [usize; 2],
    adds: bool,
) {
    let wide = 2 * size_of::<T::Vector>() / size_of::<T>();
    let is_dense = c.strides[1] == 1;
    if is_dense {
        for row in 0..rows {
            prefetch(&c.data[c.at(row, 0)..][..columns]);
        }
    }
    let zero = T::splat(simd, T::default());
    let mut sums = [[zero; 2]; ROWS];
    for (a, b) in a.iter().zip(b) {
        for row in 0..ROWS {
            let of_row = T::splat(simd, a[row]);
            sums[row][0] = T::mul_add(simd, of_row, b[0], sums[row][0]);
            sums[row][1] = T::mul_add(simd, of_row, b[1], sums[row][1]);
        }
    }
    let alpha = T::splat(simd, alpha);
    if !is_dense || [rows, columns] != [ROWS, wide] {
        return at_the_end(simd, alpha, sums, c, [rows, columns], adds);
    }
    for (row, sums) in sums.iter().enumerate() {
        let start = c.at(row, 0);
        let into: &mut [T::Vector] = bytemuck::cast_slice_mut(&mut c.data[start..][..wide]);
        for (into, &sum) in into.iter_mut().zip(sums) {
            *into = T::mul_add(simd, alpha, sum, if adds { *into } else { zero });
        }
    }
}

/// Adds to fewer rows and columns, or to elements that are not contiguous.
#[inline(never)]
fn at_the_end<T: Floats>(
    simd: V3,
    alpha: T::Vector,
    sums: [[T::Vector; 2]; ROWS],
    c: PanelMut<'_, T>,
    [rows, columns]: [usize; 2],
    adds: bool,
) {
    for (row, sums) in sums.iter().enumerate().take(rows) {
        let mut held = [T::splat(simd, T::default()); 2];
        if adds {
            let held: &mut [T] = bytemuck::cast_slice_mut(&mut held);
            (0..columns).for_each(|column| held[column] = c.data[c.at(row, column)]);
        }
        for (held, &sum) in held.iter_mut().zip(sums) {
            *held = T::mul_add(simd, alpha, sum, *held);
        }
        let held: &[T] = bytemuck::cast_slice(&held);
        for (column, &held) in held.iter().enumerate().take(columns) {
            let at = c.at(row, column);
            c.data[at] = held;
        }
    }
}

/// Packs `R` rows after `R` rows, term by term, with zeros for missing rows; transposes `LINES` rows at a time.
#[inline(always)]
fn pack<T: Floats, const R: usize, const LINES: usize>(from: Panel<'_, T>, rows: usize, terms: usize, into: &mut [T]) {
    let [down, along] = from.strides;
    for (nth, into) in into.as_chunks_mut::<R>().0.chunks_exact_mut(terms).enumerate() {
        let from = from.from(nth * R, 0);
        let here = R.min(rows - nth * R);
        if here == R && down == 1 {
            for (term, into) in into.iter_mut().enumerate() {
                into.copy_from_slice(&from.data[from.at(0, term)..][..R]);
            }
        } else if here == R && along == 1 {
            // More lines than these may map to the same sets of the first-level cache.
            for first in (0..R).step_by(LINES) {
                let rows: [&[T]; LINES] = array::from_fn(|row| &from.data[from.at(first + row, 0)..][..terms]);
                transpose(rows, into, first);
            }
        } else {
            for (term, into) in into.iter_mut().enumerate() {
                *into = array::from_fn(|row| if row < here { from.data[from.at(row, term)] } else { T::default() });
            }
        }
    }
}

/// Interleaves rows, starting at element `first` of each term.
#[inline(always)]
fn transpose<T: Floats, const R: usize, const LINES: usize>(rows: [&[T]; LINES], into: &mut [[T; R]], first: usize) {
    const TERMS: usize = 8;
    let (blocks, rest) = into.as_chunks_mut::<TERMS>();
    let done = blocks.len() * TERMS;
    for (nth, into) in blocks.iter_mut().enumerate() {
        let rows: [&[T; TERMS]; LINES] = rows.map(|row| row[nth * TERMS..].first_chunk().expect("a block of terms"));
        for (term, into) in into.iter_mut().enumerate() {
            let into: &mut [T; LINES] = into[first..].first_chunk_mut().expect("`LINES` divides `R`");
            *into = rows.map(|row| row[term]);
        }
    }
    for (nth, into) in rest.iter_mut().enumerate() {
        into[first..][..LINES].copy_from_slice(&rows.map(|row| row[done + nth]));
    }
}
