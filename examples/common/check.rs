//! The sequential product, and how far a distributed one may be from it.
//!
//! It shares no code with the library: floats are multiplied by ndarray's own `dot`, integers by a loop.

use super::values::Number;
use ndarray::{Array2, ArrayView2, ArrayViewD, Axis};
use polyshard::DType;

/// How far a product is from the sequential one.
pub(crate) struct Verdict {
    /// The largest difference of two elements.
    pub(crate) error: f64,
    /// The largest that rounding explains; 0 for integers.
    pub(crate) bound: f64,
}

/// Compares `c` with the sequential product of `a` and `b`.
///
/// Integers must be equal. A sum of k products, rounded one by one in any order, is off by no more than
/// about lambda * sqrt(k) * u * (|A| |B|) per element, with the unit roundoff u and a lambda of a few: N. Higham
/// and T. Mary, "A new approach to probabilistic rounding error analysis", SIAM Journal on Scientific
/// Computing 41(5), 2019. Both sides are rounded, so lambda is 8 here; (|A| |B|) is bounded by the greatest
/// norms of a row of A and of a column of B.
pub(crate) fn check<T: Number>(dtype: DType, a: ArrayView2<T>, b: ArrayView2<T>, c: ArrayViewD<T>) -> Verdict {
    let expected = product(dtype, a, b);
    let error = c.iter().zip(&expected).map(|(&c, &expected)| c.distance(expected)).fold(0.0, f64::max);
    let roundoff = match dtype {
        DType::F32 => f64::from(f32::EPSILON) / 2.0,
        DType::F64 => f64::EPSILON / 2.0,
        DType::I32 | DType::I64 => return Verdict { error, bound: 0.0 },
    };
    let terms = a.len_of(Axis(1)) as f64;
    let bound = 8.0 * terms.sqrt() * roundoff * largest_norm(a) * largest_norm(b.reversed_axes());
    Verdict { error, bound }
}

/// The sequential product. Types are told apart by a cast, which costs one copy and no bound on `T`.
fn product<T: Number>(dtype: DType, a: ArrayView2<T>, b: ArrayView2<T>) -> Array2<T> {
    fn through<T: Number, F: Number + ndarray::LinalgScalar>(a: ArrayView2<T>, b: ArrayView2<T>) -> Array2<T> {
        let cast = |x: &T| F::from(*x).expect("the types are the same");
        a.map(cast).dot(&b.map(cast)).map(|&x| T::from(x).expect("the types are the same"))
    }
    match dtype {
        DType::F32 => through::<T, f32>(a, b),
        DType::F64 => through::<T, f64>(a, b),
        DType::I32 | DType::I64 => {
            let mut c = Array2::from_elem((a.nrows(), b.ncols()), T::ZERO);
            for (a, mut c) in a.rows().into_iter().zip(c.rows_mut()) {
                for (&a, b) in a.iter().zip(b.rows()) {
                    c.iter_mut().zip(b).for_each(|(c, &b)| *c = c.plus(a.times(b)));
                }
            }
            c
        }
    }
}

/// The greatest Euclidean norm of a row.
fn largest_norm<T: Number>(matrix: ArrayView2<T>) -> f64 {
    let square = |x: &T| x.distance(T::ZERO).powi(2);
    matrix.rows().into_iter().map(|row| row.iter().map(square).sum::<f64>().sqrt()).fold(0.0, f64::max)
}
