//! Hand-written loops over the elements that a rank holds.

use crate::kernels::SIZE;

/// The length of a row with one more point on either side.
const PADDED: usize = SIZE + 2;

/// Sets each element of `c` from those of `a` and `b` at the same index.
#[inline(always)]
pub(crate) fn pointwise<T: Copy>(a: &[T], b: &[T], c: &mut [T], f: impl Fn(T, T) -> T) {
    for ((c, &a), &b) in c.iter_mut().zip(a).zip(b) {
        *c = f(a, b);
    }
}

/// Sets each element of `c` from the element of `a` at the same index and its neighbours in three rows; `a` has one
/// more point than `c` on either side.
#[inline(always)]
pub(crate) fn stencil<T: Copy>(a: &[T], c: &mut [T], f: impl Fn([T; 3], [T; 3], [T; 3]) -> T) {
    for (i, c) in c.chunks_exact_mut(SIZE).enumerate() {
        row_of(c, [i, i + 1, i + 2].map(|i| &a[i * PADDED..][..PADDED]), &f);
    }
}

/// The same for the points of a block that have all their neighbours in it: the cost of a stencil with the row stride
/// of a shard.
#[inline(always)]
pub(crate) fn inner<T: Copy>(a: &[T], c: &mut [T], f: impl Fn([T; 3], [T; 3], [T; 3]) -> T) {
    for (i, c) in c.chunks_exact_mut(SIZE).enumerate().skip(1).take(a.len() / SIZE - 2) {
        row_of(&mut c[1..SIZE - 1], [i - 1, i, i + 1].map(|i| &a[i * SIZE..][..SIZE]), &f);
    }
}

/// Sets each element of a row from its neighbours in three rows, which begin one point before it.
#[inline(always)]
fn row_of<T: Copy>(c: &mut [T], [north, middle, south]: [&[T]; 3], f: &impl Fn([T; 3], [T; 3], [T; 3]) -> T) {
    for (j, c) in c.iter_mut().enumerate() {
        let three = |row: &[T]| [row[j], row[j + 1], row[j + 2]];
        *c = f(three(north), three(middle), three(south));
    }
}

/// The block of `rows` rows starting at row `first` of a periodic array, with one more point on either side.
pub(crate) fn padded<T>(first: usize, rows: usize, value: impl Fn([usize; 2]) -> T) -> Vec<T> {
    let at = |i: usize, j: usize| value([(first + i + SIZE - 1) % SIZE, (j + SIZE - 1) % SIZE]);
    (0..rows + 2).flat_map(|i| (0..PADDED).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect()
}
