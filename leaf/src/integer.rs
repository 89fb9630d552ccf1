//! Matrix products of integers, which wrap: blocked for registers and cache, vectorised by the compiler.

use super::panel::MatrixProduct;
use super::scratch::Scratch;
use crate::Element;

/// Rows and columns of `c` that are kept in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 16;
/// Terms and columns that are packed at once: a block of `b` of at most 1 MiB.
const TERMS: usize = 256;
const BLOCK: usize = 512;

/// Computes a product that adds.
pub(super) fn multiply<T: Element>(product: MatrixProduct<'_, T>) {
    let MatrixProduct { sizes: [m, n, k], alpha, a, b, c, .. } = product;
    let terms = TERMS.min(k);
    let mut kept = Scratch::of::<T>(terms * (ROWS + BLOCK.min(n).next_multiple_of(COLUMNS)));
    let (packed_a, room) = kept.split::<T>(terms * ROWS);
    let (packed_a, room) = (packed_a.as_chunks_mut::<ROWS>().0, room.as_chunks_mut::<COLUMNS>().0);
    for terms in blocks(k, TERMS) {
        for columns in blocks(n, BLOCK) {
            let mut packed = 0;
            for panel in blocks(columns.len(), COLUMNS) {
                for term in terms.clone() {
                    let mut row = [T::ZERO; COLUMNS];
                    for (value, column) in row.iter_mut().zip(panel.clone()) {
                        *value = b.data[b.at(term, columns.start + column)];
                    }
                    room[packed] = row;
                    packed += 1;
                }
            }
            let packed_b = &room[..packed];
            for rows in blocks(m, ROWS) {
                let packed_a = &mut packed_a[..terms.len()];
                for (values, term) in packed_a.iter_mut().zip(terms.clone()) {
                    *values = [T::ZERO; ROWS];
                    for (value, row) in values.iter_mut().zip(rows.clone()) {
                        *value = alpha.multiply(a.data[a.at(row, term)]);
                    }
                }
                for (panel, packed_b) in blocks(columns.len(), COLUMNS).zip(packed_b.chunks_exact(terms.len())) {
                    let sums = sums_of(packed_a, packed_b);
                    for (row, sums) in rows.clone().zip(&sums) {
                        for (column, &sum) in panel.clone().zip(sums) {
                            let i = c.at(row, columns.start + column);
                            c.data[i] = c.data[i].add(sum);
                        }
                    }
                }
            }
        }
    }
}

fn sums_of<T: Element>(a: &[[T; ROWS]], b: &[[T; COLUMNS]]) -> [[T; COLUMNS]; ROWS] {
    let mut sums = [[T::ZERO; COLUMNS]; ROWS];
    for (a, b) in a.iter().zip(b) {
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = sum.add(a.multiply(b));
            }
        }
    }
    sums
}

fn blocks(extent: usize, block: usize) -> impl Iterator<Item = std::ops::Range<usize>> + Clone {
    (0..extent).step_by(block).map(move |start| start..(start + block).min(extent))
}
