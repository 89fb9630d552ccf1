//! How far an answer may be from the sequential one.

use ndarray::ArrayD;
use polyshard::cli::values::Number;
use polyshard::runtime::DType;

/// Compares `found` with what `reference` makes of the inputs, and says how far they are apart.
///
/// Integers must be equal. A sum of n products, rounded one by one in any order, is off by no more than about
/// lambda * sqrt(n) * u times the sum of their magnitudes, with the unit roundoff u and a lambda of a few: N. Higham and
/// T. Mary, "A new approach to probabilistic rounding error analysis", SIAM Journal on Scientific Computing 41(5), 2019.
/// Both sides are rounded, so lambda is 8 here; `terms` is n, and `reference` of the inputs' magnitudes is the sum.
///
/// # Errors
/// If an element is further off than that.
pub fn check<T: Number>(
    inputs: &[&ArrayD<T>],
    found: &ArrayD<T>,
    terms: usize,
    reference: impl Fn(&[&ArrayD<T>]) -> polyshard::runtime::Result<ArrayD<T>>,
) -> polyshard::Result<String> {
    let expected = reference(inputs)?;
    assert_eq!(found.shape(), expected.shape(), "an answer has the shape of the reference");
    let errors = || found.iter().zip(&expected).map(|(&found, &expected)| found.distance(expected));
    let error = errors().fold(0.0, f64::max);
    let roundoff = match T::DTYPE {
        DType::F32 => f64::from(f32::EPSILON) / 2.0,
        DType::F64 => f64::EPSILON / 2.0,
        _ if error == 0.0 => {
            return Ok(format!("largest error against the sequential reference: {error:e} (integers are exact)"));
        }
        _ => return Err(wrong(found, error, errors(), |_| 0.0)),
    };
    let magnitudes: Vec<_> = inputs.iter().map(|input| input.mapv(T::absolute)).collect();
    let sums = reference(&magnitudes.iter().collect::<Vec<_>>())?;
    // What rounding explains is no less than rounding the element itself.
    let explained = 8.0 * (terms.max(1) as f64).sqrt() * roundoff;
    let bounds: Vec<f64> = sums.iter().map(|&sum| explained * sum.distance(T::ZERO)).collect();
    if errors().zip(&bounds).all(|(error, bound)| error <= *bound) {
        let bound = bounds.iter().copied().fold(0.0, f64::max);
        return Ok(format!(
            "largest error against the sequential reference: {error:e} (rounding explains up to {bound:.1e})"
        ));
    }
    Err(wrong(found, error, errors(), |nth| bounds[nth]))
}

/// The first element that is off by more than its bound.
fn wrong<T>(
    found: &ArrayD<T>,
    largest: f64,
    errors: impl Iterator<Item = f64>,
    bound: impl Fn(usize) -> f64,
) -> polyshard::Error {
    let mut off = errors.zip(found.indexed_iter()).enumerate().filter(|(nth, (error, _))| *error > bound(*nth));
    let (nth, (error, (index, _))) = off.next().expect("an element is off");
    let message = format!(
        "the answer is wrong: element {:?} is off by {error:e}, but rounding explains up to {:.1e}; the largest error is \
         {largest:e}",
        ndarray::Dimension::slice(&index),
        bound(nth)
    );
    polyshard::Error::Other(message.into())
}
